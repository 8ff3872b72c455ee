package testkit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Captures is the folder that ROCESCOPE_CAPTURES names: large captures of real stacks, which are not part of the
// repository. A relative path is meant from the module's root. Without it the test is skipped; what can be tested on
// captures/samples should be.
func Captures(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("ROCESCOPE_CAPTURES")
	if dir == "" {
		t.Skip("ROCESCOPE_CAPTURES is not set: it names a folder of large captures that are not part of the repository")
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(ModuleRoot(t), dir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Fatalf("ROCESCOPE_CAPTURES=%s is no folder", dir)
	}
	return dir
}

// RXE is the folder of captures of Linux soft-RoCE; RXEManifest has the ground truth of each.
func RXE(t testing.TB) string { t.Helper(); return subfolder(t, "rxe") }

// Public is the folder of captures that other people published: read it, copy nothing out of it.
func Public(t testing.TB) string { t.Helper(); return subfolder(t, "public") }

// TwoTap is the folder of pairs of captures from both ends of a faulty wire; TwoTapManifest has the ground truth.
func TwoTap(t testing.TB) string { t.Helper(); return subfolder(t, "two-tap") }

func subfolder(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(Captures(t), name)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Fatalf("ROCESCOPE_CAPTURES has no folder %s", name)
	}
	return dir
}

// Files are the full paths of the files of a folder that match one of the patterns, sorted; none is a failure.
func Files(t testing.TB, dir string, patterns ...string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		for _, p := range patterns {
			if ok, err := filepath.Match(p, e.Name()); err != nil {
				t.Fatal(err)
			} else if ok {
				found = append(found, filepath.Join(dir, e.Name()))
				break
			}
		}
	}
	if len(found) == 0 {
		t.Fatalf("nothing in %s matches %q", dir, patterns)
	}
	return found
}

// Manifest is rxe/MANIFEST.json.
type Manifest struct {
	About    string  `json:"about"`
	Captures []Entry `json:"captures"`
}

// Entry is the ground truth of one capture in rxe.
type Entry struct {
	File        string `json:"file"`
	Scenario    string `json:"scenario"`
	SHA256      string `json:"sha256"`
	Bytes       int64  `json:"bytes"`
	CapturedAt  string `json:"captured_at"`
	Description string `json:"description"`
	Truth       Truth  `json:"truth"`
	Run
	Setup                  []Setup                 `json:"setup"`
	After                  map[string]CommandsSaid `json:"after"` // teardown_a, teardown_b: how often faults struck
	CaptureDroppedByKernel int                     `json:"capture_dropped_by_kernel"`
	CaptureLimited         string                  `json:"capture_limited"` // not empty: the capture ends before the run
	Observed               Observed                `json:"observed"`
}

// Truth is what the scenario was meant to do. A key that an entry does not have is zero (nil for pointers).
type Truth struct {
	Op            string   `json:"op"` // RDMA_WRITE, RDMA_READ, SEND, FETCH_AND_ADD, CMP_AND_SWAP
	Transport     string   `json:"transport"`
	MessageBytes  *int     `json:"message_bytes"`
	MessagesPerQP *int     `json:"messages_per_qp"`
	QPs           int      `json:"qps"`
	MTU           int      `json:"mtu"`
	CM            bool     `json:"cm"`
	PingPong      bool     `json:"pingpong"`
	Bidirectional bool     `json:"bidirectional"`
	Iterations    int      `json:"iterations"`
	Messages      int      `json:"messages"`
	Connections   int      `json:"connections"`
	Sizes         []int    `json:"sizes"`
	Seconds       int      `json:"seconds"`
	Options       string   `json:"options"` // of the program, where op and sizes stand only there
	TOS           int      `json:"tos"`
	TrafficClass  int      `json:"traffic_class"`
	VLAN          int      `json:"vlan"`
	Multicast     string   `json:"multicast"`
	Immediate     string   `json:"immediate"`
	RetryCount    int      `json:"retry_cnt"`
	TimeoutCode   int      `json:"timeout_code"`
	ClientPSN     string   `json:"client_psn"`
	ServerPSN     string   `json:"server_psn"`
	Outstanding   int      `json:"outstanding"`
	Netem         string   `json:"netem"` // the fault, as tc spells it
	On            string   `json:"on"`    // the machine whose egress it strikes
	Strikes       string   `json:"strikes"`
	DropEvery     int      `json:"drop_every"`
	CEEvery       int      `json:"ce_every"`
	At            string   `json:"at"`
	By            string   `json:"by"`
	Expect        []string `json:"expect"`
	Expected      string   `json:"expected"`
	ICRCBad       int      `json:"icrc_bad"`
}

// Run is what entries of both manifests share: who ran what, and what the devices counted.
type Run struct {
	Kernel         string                      `json:"kernel"`
	Driver         string                      `json:"driver"`
	Versions       map[string]any              `json:"versions"`
	Client         Machine                     `json:"client"`
	Server         Machine                     `json:"server"`
	NetdevMTU      int                         `json:"netdev_mtu"`
	Seconds        float64                     `json:"seconds"`
	CountersBefore map[string]map[string]int64 `json:"counters_before"` // by machine: a, b (t where there is only one)
	CountersAfter  map[string]map[string]int64 `json:"counters_after"`
	CountersDelta  map[string]map[string]int64 `json:"counters_delta"`
}

// Machine is one side.
type Machine struct {
	Name   string    `json:"name"`
	IP     string    `json:"ip"`
	IP6    string    `json:"ip6"`
	MAC    string    `json:"mac"`
	During string    `json:"during"` // what was done to it while the client ran
	Runs   []Program `json:"runs"`
}

// Program is one command and what it printed.
type Program struct {
	Command   string    `json:"command"`
	Output    string    `json:"output"`
	Addresses []Address `json:"addresses"` // the manifest's own parse of perftest's lines; QueuePairs reads all programs
}

// Address is a perftest address line. Numbers are written as 0x….
type Address struct {
	Side  string `json:"side"` // "local" or "remote"
	QPN   string `json:"qpn"`
	PSN   string `json:"psn"`
	RKey  string `json:"rkey"`
	VAddr string `json:"vaddr"`
}

// Setup are the commands that prepared a machine; CommandsSaid those that asked and undid.
type Setup struct {
	Guest    string   `json:"guest"`
	Commands []string `json:"commands"`
	Output   string   `json:"output"`
}

// CommandsSaid are commands and their output.
type CommandsSaid struct {
	Commands []string `json:"commands"`
	Output   string   `json:"output"`
}

// Observed is what an independent small parser counted in the file: a second opinion, not the truth.
type Observed struct {
	Packets         int                       `json:"packets"`
	RoCEv2          int                       `json:"rocev2"`
	RoCEv2IPv4      int                       `json:"rocev2_ipv4"`
	RoCEv2IPv6      int                       `json:"rocev2_ipv6"`
	UDPChecksumZero int                       `json:"udp_checksum_zero"`
	VLANTagged      int                       `json:"vlan_tagged"`
	ICRCOK          int                       `json:"icrc_ok"`
	ICRCBad         int                       `json:"icrc_bad"`
	Opcodes         map[string]map[string]int `json:"opcodes"` // "source>destination" → opcode → packets
	AETH            map[string]int            `json:"aeth"`    // ack, nak_0, rnr_nak, …
	CM              map[string]int            `json:"cm_mads"`
	Other           map[string]int            `json:"other"`
	Flags           map[string]int            `json:"flags"`
	UDPSourcePorts  map[string][]int          `json:"udp_sports"`
	TOS             map[string]int            `json:"tos"`
	TTL             map[string]int            `json:"ttl"`
	Pad             map[string]int            `json:"pad"`
	DestQPs         []string                  `json:"dest_qps"`
}

// QueuePair is a QP as its owner printed it. RKey and VA are 0 where the program does not print them.
type QueuePair struct {
	QPN, PSN uint32
	RKey     uint32
	VA       uint64
}

var localLine = regexp.MustCompile(`local address:\s+LID \w+,? QPN 0x(\w+),? PSN 0x(\w+)(?:.*RKey 0x(\w+) VAddr 0x(\w+))?`)

// QueuePairs are the QPs that a machine's programs printed as their own, in order, without repetitions: perftest's and
// the ibv_*_pingpong programs' lines, and our lab tool's JSON lines. Programs over rdma_cm print none.
func (m Machine) QueuePairs() []QueuePair {
	var found []QueuePair
	add := func(qpn, psn, rkey, va string) {
		hex := func(s string) uint64 {
			n, _ := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
			return n
		}
		q := QueuePair{QPN: uint32(hex(qpn)), PSN: uint32(hex(psn)), RKey: uint32(hex(rkey)), VA: hex(va)}
		for _, f := range found {
			if f == q {
				return
			}
		}
		found = append(found, q)
	}
	for _, run := range m.Runs {
		for _, line := range strings.Split(run.Output, "\n") {
			if s := localLine.FindStringSubmatch(line); s != nil {
				add(s[1], s[2], s[3], s[4])
				continue
			}
			var said struct{ Side, Event, Of, QPN, PSN, RKey, VAddr string }
			if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &said) == nil && said.Event == "qp" && said.Of == said.Side {
				add(said.QPN, said.PSN, said.RKey, said.VAddr)
			}
		}
	}
	return found
}

// Entry is that of a file, by its name without folder; a missing one ends the test.
func (m Manifest) Entry(t testing.TB, file string) Entry {
	t.Helper()
	for _, e := range m.Captures {
		if e.File == filepath.Base(file) {
			return e
		}
	}
	t.Fatalf("the manifest has no entry for %s", file)
	return Entry{}
}

// RXEManifest is the ground truth of the captures in RXE.
func RXEManifest(t testing.TB) Manifest {
	t.Helper()
	var m Manifest
	readJSON(t, filepath.Join(RXE(t), "MANIFEST.json"), &m)
	return m
}

// PairManifest is two-tap/MANIFEST.json.
type PairManifest struct {
	About string `json:"about"`
	Pairs []Pair `json:"pairs"`
}

// Pair is the ground truth of one run that was captured at both ends.
type Pair struct {
	Pair        string `json:"pair"`
	Description string `json:"description"`
	Run
	Files []struct {
		File       string `json:"file"`
		CapturedAt string `json:"captured_at"`
		SHA256     string `json:"sha256"`
		Bytes      int64  `json:"bytes"`
		// Observed is an object for the two taps and a sentence for the shifted copy; see ObservedCounts.
		Observed json.RawMessage `json:"observed"`
	} `json:"files"`
	Clock struct {
		TapA        string `json:"tap_a"`
		TapB        string `json:"tap_b"`
		TapBShifted struct {
			OffsetS   float64 `json:"offset_s"`
			DriftPPM  float64 `json:"drift_ppm"`
			Reference string  `json:"reference"`
			Formula   string  `json:"formula"`
		} `json:"tap_b_shifted"`
	} `json:"clock"`
	TapsDropped map[string]int `json:"taps_dropped"`
	Faults      struct {
		About      string            `json:"about"`
		Rules      []json.RawMessage `json:"rules"`
		Candidates []int             `json:"candidates"` // by rule
		Struck     []int             `json:"faults"`     // by rule
		Forwarded  map[string]int    `json:"forwarded"`  // by direction, "a>b" and "b>a"
		RoCEv2     map[string]int    `json:"rocev2"`
		LostByUs   int               `json:"lost_by_the_forwarder_itself"`
		Log        []Struck          `json:"log"` // one for each frame that was struck
	} `json:"faults"`
	Checked struct {
		Problems []string         `json:"problems"`
		Counters map[string][]int `json:"rocev2_in_capture_vs_rxe_counter"`
	} `json:"checked"`
}

// Struck is one frame that the wire between the taps did something to.
type Struck struct {
	N                int         `json:"n"`
	Time             string      `json:"time"`     // at the first tap
	TimeOut          TimesOut    `json:"time_out"` // at the other; several of a duplicate, none of a lost frame
	Direction        string      `json:"direction"`
	Done             string      `json:"done"` // drop, duplicate, delay, corrupt, ce, truncate
	Rule             int         `json:"rule"`
	Candidate        int         `json:"candidate"`
	Opcode           string      `json:"opcode"`
	OpcodeByte       int         `json:"opcode_byte"`
	DestQP           uint32      `json:"dest_qp"`
	PSN              uint32      `json:"psn"`
	AckReq           int         `json:"ack_req"`
	IPID             *int        `json:"ip_id"`
	UDPSourcePort    int         `json:"udp_sport"`
	PayloadLen       int         `json:"payload_len"`
	FrameLen         int         `json:"frame_len"`
	SentLen          int         `json:"sent_len"` // truncate
	CM               string      `json:"cm"`
	FrameInA         FrameNumber `json:"frame_in_a"`
	FrameInB         FrameNumber `json:"frame_in_b"`
	TOSBefore        *int        `json:"tos_before"`
	TOSAfter         *int        `json:"tos_after"`
	ICRCRightBefore  *bool       `json:"icrc_right_before"`
	ICRCRightAfter   *bool       `json:"icrc_right_after"`
	LetPassFirst     int         `json:"let_pass_first"`
	PassedBeforeIt   int         `json:"passed_before_it"`
	ReleasedBy       string      `json:"released_by"`
	AETH             *StruckAETH `json:"aeth"`
	ChangedFrameByte *Change     `json:"changed"`
}

// StruckAETH is the AETH of a struck acknowledgement.
type StruckAETH struct {
	Syndrome int    `json:"syndrome"`
	Kind     string `json:"kind"`
	MSN      uint32 `json:"msn"`
}

// Change is the bit that was flipped.
type Change struct {
	FrameByte int    `json:"frame_byte"`
	Bit       int    `json:"bit"`
	Before    string `json:"before"`
	After     string `json:"after"`
	Part      string `json:"part"`
}

// FrameNumber are the numbers of a frame in a capture, from 1: none if it is not there, several if it is there twice.
type FrameNumber []int

// UnmarshalJSON reads null, a number or a list.
func (f *FrameNumber) UnmarshalJSON(text []byte) error { return oneOrMany((*[]int)(f), text) }

// TimesOut are the moments at which a frame left the wire.
type TimesOut []string

// UnmarshalJSON reads null, a string or a list.
func (f *TimesOut) UnmarshalJSON(text []byte) error { return oneOrMany((*[]string)(f), text) }

func oneOrMany[T any](list *[]T, text []byte) error {
	if len(text) > 0 && text[0] == '[' || string(text) == "null" {
		return json.Unmarshal(text, list)
	}
	var one T
	err := json.Unmarshal(text, &one)
	*list = []T{one}
	return err
}

// ObservedCounts is the independent count of the file of that index.
func (p Pair) ObservedCounts(t testing.TB, file int) Observed {
	t.Helper()
	var o Observed
	if err := json.Unmarshal(p.Files[file].Observed, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TwoTapManifest is the ground truth of the pairs in TwoTap.
func TwoTapManifest(t testing.TB) PairManifest {
	t.Helper()
	var m PairManifest
	readJSON(t, filepath.Join(TwoTap(t), "MANIFEST.json"), &m)
	return m
}

func readJSON(t testing.TB, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
