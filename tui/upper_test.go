package tui

import (
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/tui/cells"
)

// TestMessagesSayWhatTheyCarry in a column that is there only where something is known.
func TestMessagesSayWhatTheyCarry(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	drawn := func(list []flows.Message) string {
		var text string
		u.do(func() {
			l := newMessageList(1)
			l.loaded = true
			l.show(u.s, list)
			c := cells.New(160, 10)
			l.draw(u.s, c, true)
			text = c.Plain()
		})
		return text
	}
	plain := []flows.Message{{Conn: 1, Op: flows.OpSend, Bytes: 64}}
	if text := drawn(plain); strings.Contains(text, "carries") {
		t.Errorf("nothing is carried, and has a column:\n%s", text)
	}
	list := append(plain,
		flows.Message{Conn: 1, Index: 1, Upper: &flows.Upper{Protocol: dissect.NVMe, Kind: dissect.UpperNVMeIO, Summary: "Read"}},
		flows.Message{Conn: 1, Index: 2, Upper: &flows.Upper{Protocol: dissect.NVMe, Summary: "data of Read", Request: 7}},
		flows.Message{Conn: 1, Index: 3, Upper: &flows.Upper{Protocol: dissect.NVMe, Kind: dissect.UpperNVMeResponse, Summary: "success", Request: 7, Latency: 1500}},
	)
	text := drawn(list)
	for _, want := range []string{"carries", " Read ", "data of Read (of packet 7)", "success (to packet 7, 1.50 µs)"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
}
