package diff

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/dissect"
)

// TestListedMessagesAreTheFirst: of more messages than are listed, the list has those that began first, each time.
func TestListedMessagesAreTheFirst(t *testing.T) {
	story := func(shift int) *Story {
		s := &Story{Conns: []Conn{{ID: 1, A: QP{"10.0.0.1", 1, true}, B: QP{"10.0.0.2", 2, true}, Transport: "RC"}}}
		for i := range maxListed + 2000 {
			s.Messages = append(s.Messages, Message{Conn: 1, Index: uint32(i), Op: "WRITE", FirstPSN: dissect.PSN(i + shift), First: int64(i), Frame: uint64(i + 1), Latency: -1})
		}
		return s
	}
	a, b := story(0), story(maxListed+1900) // a hundred in common
	var before *Messages
	for range 3 {
		m, err := CompareStories(context.Background(), a, b)
		if err != nil {
			t.Fatal(err)
		}
		if m.Matched != 100 || len(m.Differ) != maxListed || m.More != 2*(maxListed+1900)-maxListed || m.Differ[0].Frame != [2]uint64{1, 0} || m.Differ[maxListed-1].Frame[0] != maxListed {
			t.Fatalf("%d matched, %d listed from %v to %v, %d more", m.Matched, len(m.Differ), m.Differ[0].Frame, m.Differ[len(m.Differ)-1].Frame, m.More)
		}
		if before != nil {
			if diff := cmp.Diff(before.Differ, m.Differ); diff != "" {
				t.Fatalf("the list is another:\n%.500s", diff)
			}
		}
		before = m
	}
}
