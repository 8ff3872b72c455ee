package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// analysis is what the judgement needs of rocescope.analysis/1.
type analysis struct {
	Capture struct {
		Malformed uint64 `json:"malformed"`
		Dropped   uint64 `json:"dropped"`
	} `json:"capture"`
	Protocols struct {
		RoCEv2 uint64 `json:"rocev2"`
	} `json:"protocols"`
	ICRC struct {
		Invalid uint64 `json:"invalid"`
	} `json:"icrc"`
	Findings []finding `json:"findings"`
	Counters *struct {
		List []counter `json:"list"`
	} `json:"counters"`
}

type finding struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
}

type counter struct {
	Name      string `json:"name"`
	Delta     *int64 `json:"delta"`
	Predicted *int64 `json:"predicted"`
	Verdict   string `json:"verdict"`
	Why       string `json:"why"`
}

// byTheWire are the findings that a bad wire makes: everything else is the doing of one of the ends.
var byTheWire = []string{
	"network_duplicate", "reordered", "lost_before_tap", "lost_behind_tap", "response_lost_before_tap", "response_lost_behind_tap",
	"timeout", "resent_after_ack", "message_stalled", "dreq_unanswered",
}

// byLateness are the findings that an acknowledgement time-out makes that is too short for a guest on a busy machine.
var byLateness = []string{"timeout", "resent_after_ack"}

// counting are the counters of soft-RoCE that move in good times too.
var counting = []string{"sent_pkts", "rcvd_pkts", "rdma_sends", "rdma_recvs", "ack_deferred", "lifespan"}

// judge says what in the packets and counters of a row must not be, and notes figures for the page.
func judge(r *Result, text []byte) error {
	var a analysis
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("what rocescope analyze said: %w", err)
	}
	r.Packets = a.Protocols.RoCEv2
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if a.Protocols.RoCEv2 == 0 {
		bad("no RoCE packet was on the wire")
	}
	if a.Capture.Dropped > 0 {
		bad("the capture lost %d packets: the laboratory's fault", a.Capture.Dropped)
	}
	if a.Capture.Malformed > 0 || a.ICRC.Invalid > 0 {
		bad("%d malformed packets, %d with a wrong invariant CRC", a.Capture.Malformed, a.ICRC.Invalid)
	}
	for _, f := range a.Findings {
		switch {
		case f.Severity == "note",
			!r.Wire.good() && slices.Contains(byTheWire, f.ID),
			r.Late && slices.Contains(byLateness, f.ID),
			slices.Contains(r.Findings, f.ID), slices.Contains(r.May, f.ID):
		default:
			bad("%s: %s", f.ID, f.Summary)
		}
	}
	for _, id := range r.Findings {
		if !slices.ContainsFunc(a.Findings, func(f finding) bool { return f.ID == id }) {
			bad("rocescope analyze does not find %s", id)
		}
	}
	if a.Counters == nil {
		return errors.Join(append(wrong, errors.New("the counters of Linux were not compared"))...)
	}
	var moved []string
	for _, c := range a.Counters.List {
		if c.Delta == nil || *c.Delta == 0 || slices.Contains(counting, c.Name) {
			continue
		}
		moved = append(moved, fmt.Sprintf("%s %d", c.Name, *c.Delta))
	}
	r.Moved = strings.Join(moved, ", ")
	if !r.Wire.good() {
		return errors.Join(wrong...) // netem strikes where no tap is, so that the capture cannot predict what Linux counts
	}
	for _, c := range a.Counters.List {
		if c.Verdict == "differs" || c.Verdict == "reset" {
			bad("Linux's %s moved by %s, and the packets say %s: %s", c.Name, number(c.Delta), number(c.Predicted), c.Why)
		}
	}
	if len(moved) > 0 && !r.Late {
		bad("Linux counts errors on a good wire: %s", r.Moved)
	}
	return errors.Join(wrong...)
}

func number(n *int64) string {
	if n == nil {
		return "nothing"
	}
	return fmt.Sprint(*n)
}
