// Package samples holds small real captures that tests, documentation and `rocescope demo` share. Each tells one story
// and has its ground truth beside it: what both sides were told to do, what they said and counted themselves, and which
// faults were put in. What to make of them belongs to who reads them. All were made with the Linux
// kernel's soft-RoCE in virtual machines; see README.md.
package samples

import (
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Schema is the name of the format of the NAME.json files; Sample is its description.
const Schema = "rocescope.sample/1"

// Default is the sample for somebody who asked for none: a lost WRITE, the NAK, go-back-N, recovery.
const Default = "lost_write_recovered"

//go:embed *.pcap *.json
var files embed.FS

// order is the order to show them in: the story of rocescope first, then by how often they help.
var order = []string{
	"lost_write_recovered",
	"read_response_lost",
	"rnr_wait",
	"peer_gone",
	"memory_window_revoked",
	"rule_breaker",
	"cm_rping_ipv6",
	"cm_rejected",
	"atomics",
	"psn_wrap",
	"ud_pingpong",
	"uc_loss_unnoticed",
}

// Sample is one capture with its ground truth, as NAME.json holds it.
type Sample struct {
	Schema   string  `json:"schema"`
	Name     string  `json:"name"`
	Title    string  `json:"title"` // one line
	Story    string  `json:"story"` // two sentences
	Scenario string  `json:"scenario"`
	Capture  Capture `json:"capture"`
	Stack    string  `json:"stack"` // who spoke
	Sides    Sides   `json:"sides"`
	Truth    Truth   `json:"truth"`
	Faults   []Fault `json:"faults"` // what was broken on purpose; empty for a clean run
	Note     string  `json:"note,omitempty"`
}

// Capture describes the file.
type Capture struct {
	File          string `json:"file"`
	Bytes         int64  `json:"bytes"`
	SHA256        string `json:"sha256"`
	Packets       int    `json:"packets"`
	RoCEv2Packets int    `json:"rocev2_packets"`
	ICRCWrong     int    `json:"icrc_wrong"` // packets whose ICRC does not fit; all others do
	Tap           string `json:"tap"`        // where it was taken: "client side" or "server side"
}

// Sides are the two ends: the client connects and drives, the server waits.
type Sides struct {
	Client Side `json:"client"`
	Server Side `json:"server"`
}

// Side is what one end was told and what it said of itself.
type Side struct {
	Address    string      `json:"address"`
	Commands   []string    `json:"commands"`
	QueuePairs []QueuePair `json:"queue_pairs"` // in the order of their making
	// QueuePairsFrom says who vouches for QueuePairs: the programs' output, or the exchange that the capture holds.
	QueuePairsFrom string `json:"queue_pairs_from,omitempty"`
	// CountersDelta are the RDMA device's own hardware counters, after minus before; those that did not move are absent.
	CountersDelta map[string]int64 `json:"counters_delta,omitempty"`
}

// QueuePair is one QP with what its owner told the peer.
type QueuePair struct {
	QPN  Hex  `json:"qpn"`
	PSN  Hex  `json:"psn"`            // of the first request that it sends
	RKey *Hex `json:"rkey,omitempty"` // of the memory that it offers, where known
	VA   *Hex `json:"va,omitempty"`   // of the same
}

// Truth is what happened, from those who made it happen.
type Truth struct {
	Transport     string `json:"transport"`          // RC, UC or UD
	PathMTU       int    `json:"path_mtu,omitempty"` // 0: not known
	EstablishedBy string `json:"established_by"`     // "socket", "cm" or "none"
	RetryCount    int    `json:"retry_count,omitempty"`
	TimeoutCode   int    `json:"timeout_code,omitempty"`
	// Messages are all work requests that went over the wire; nil where they are not listed, empty where there were none.
	Messages []Messages `json:"messages,omitzero"`
	Atomics  []Atomic   `json:"atomics,omitempty"`
	Expect   []string   `json:"expect,omitempty"` // the scenario's own words for what should be seen
}

// Messages are work requests of one kind from one QP with one end.
type Messages struct {
	From   string `json:"from"` // "client" or "server"
	QPN    Hex    `json:"qpn"`  // of the requester
	Op     string `json:"op"`   // "send", "write", "read" or "atomic"
	Bytes  int    `json:"bytes"`
	Count  int    `json:"count"`
	Status string `json:"status"` // of the completion: "success" or the error's name. UC and UD complete when sent.
}

// Atomic is one atomic operation, in order, with the value that the requester got back.
type Atomic struct {
	Op       string `json:"op"` // "fetch_add" or "compare_swap"
	Add      *Hex   `json:"add,omitempty"`
	Compare  *Hex   `json:"compare,omitempty"`
	Swap     *Hex   `json:"swap,omitempty"`
	Original Hex    `json:"original"`
}

// Fault is something broken on purpose.
type Fault struct {
	What      string `json:"what"`
	Direction string `json:"direction"`
	Where     string `json:"where"` // and so: whether the capture holds what was lost
	How       string `json:"how"`
	Struck    int    `json:"struck"` // how often
}

// Hex is a number that is written in JSON as a string like "0x00012b", as people write QPNs, PSNs and keys.
type Hex uint64

// UnmarshalJSON reads "0x…".
func (h *Hex) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok {
		return fmt.Errorf("%q does not begin with 0x", s)
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	*h = Hex(n)
	return err
}

// MarshalJSON writes "0x…".
func (h Hex) MarshalJSON() ([]byte, error) { return json.Marshal(fmt.Sprintf("%#x", uint64(h))) }

var load = sync.OnceValue(func() []Sample {
	list := make([]Sample, 0, len(order))
	for _, name := range order {
		text, err := files.ReadFile(name + ".json")
		if err == nil {
			var s Sample
			if err = json.Unmarshal(text, &s); err == nil {
				list = append(list, s)
				continue
			}
		}
		panic(fmt.Sprintf("samples: %s.json, which is part of the binary: %v", name, err))
	}
	return list
})

// List is every sample, in the order to show them in. The caller must not change what the entries point to.
func List() []Sample { return append([]Sample(nil), load()...) }

// Open is the capture file of a sample. The caller owns the bytes.
func Open(name string) ([]byte, error) {
	if _, err := Find(name); err != nil {
		return nil, err
	}
	return files.ReadFile(name + ".pcap")
}

// Find is the sample of that name.
func Find(name string) (Sample, error) {
	for _, s := range load() {
		if s.Name == name {
			return s, nil
		}
	}
	return Sample{}, fmt.Errorf("no sample is called %q", name)
}
