package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/testkit"
)

func messages() []flows.Message {
	base := flows.Message{Conn: 1, Segments: 4, FirstPSN: 0xfffffe, LastPSN: 1, Bytes: 4096, Seen: 4096, VA: 0x55f8f2bd7000, RKey: 0x7d9, FirstSeen: start + 1_000_000, LastSent: start + 1_050_000, WireBytes: 4400, FirstFrame: 17, LastFrame: 20}
	write := base
	write.Op, write.Status, write.Completed, write.AnswerFrame = flows.OpWrite, flows.StatusSuccess, start+1_123_456, 21
	imm := write
	imm.Index, imm.Flags, imm.Imm, imm.Coalesced = 1, dissect.WithImm|dissect.ConsumesReceive, 0xcafe0001, true
	send := base
	send.Op, send.Status, send.Index, send.Direction, send.Flags, send.Imm = flows.OpSend, flows.StatusSent, 0, flows.BToA, dissect.WithInv|dissect.ConsumesReceive, 0x1234
	refused := base
	refused.Op, refused.Status, refused.Index, refused.Resends = flows.OpRead, flows.StatusRemAccess, 2, 3
	gone := base
	gone.Op, gone.Status, gone.Index, gone.Presumed, gone.Resends = flows.OpWrite, flows.StatusRetryExc, 3, true, 7
	cas := base
	cas.Op, cas.Status, cas.Index, cas.Segments, cas.LastPSN, cas.Bytes = flows.OpCompareSwap, flows.StatusSuccess, 4, 1, 0xfffffe, 8
	cas.Swap, cas.Compare, cas.Orig, cas.HasOrig, cas.Completed = 9, 8, 8, true, start+1_009_000
	add := cas
	add.Op, add.Index, add.HasOrig, add.Status, add.Completed = flows.OpFetchAdd, 5, false, flows.StatusOpen, 0
	return []flows.Message{write, imm, send, refused, gone, cas, add}
}

func TestMessageRecord(t *testing.T) {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for _, f := range messages() {
		if err := lines.Encode(NewMessage(&f)); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Golden(t, "messages.jsonl", b.Bytes())
	strict := json.NewDecoder(&b)
	strict.DisallowUnknownFields()
	for strict.More() {
		var m Message
		if err := strict.Decode(&m); err != nil {
			t.Fatal(err)
		}
		if m.Schema != MessageSchema || m.Consumes.SQ != 1 || (m.Consumes.RQ == nil || *m.Consumes.RQ == 1) != (m.Operation == "send" || m.Immediate != nil) {
			t.Errorf("%+v", m)
		}
	}
}

func TestMessageList(t *testing.T) {
	for name, o := range map[string]TextOptions{
		"messages.80.txt":        {Width: 80},
		"messages.120.txt":       {Width: 120},
		"messages.txt":           {},
		"messages.120.color.txt": {Width: 120, Style: Style{Color: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			l := NewMessageList(&b, start, o)
			for _, f := range messages() {
				m := NewMessage(&f)
				l.Add(&m)
			}
			if err := l.Close(healthy()); err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, name, b.Bytes())
			for _, line := range strings.Split(escapes.ReplaceAllString(b.String(), ""), "\n") {
				if o.Width > 0 && len(line) > o.Width {
					t.Errorf("wider than %d: %q", o.Width, line)
				}
			}
		})
	}
}

func TestLongMessageListIsWrittenAsItGoes(t *testing.T) {
	var b bytes.Buffer
	l := NewMessageList(&b, start, TextOptions{})
	f := messages()[0]
	for i := range 3 * messageBatch {
		f.Index = uint32(i)
		m := NewMessage(&f)
		l.Add(&m)
		if held := i + 2 - strings.Count(b.String(), "\n"); held > messageBatch {
			t.Fatalf("%d messages are held back", held)
		}
	}
	if err := l.Close(healthy()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "SUCCESS"); n != 3*messageBatch {
		t.Errorf("%d lines", n)
	}
}

func TestTricklingMessagesDoNotWait(t *testing.T) {
	var b bytes.Buffer
	l := NewMessageList(&b, start, TextOptions{})
	for i, f := range messages() {
		m := NewMessage(&f)
		l.Add(&m)
		l.Flush()
		if n := strings.Count(b.String(), "\n"); n != i+2 {
			t.Fatalf("%d lines for a title and %d messages", n, i+1)
		}
	}
}

func TestNoMessages(t *testing.T) {
	var b bytes.Buffer
	if err := NewMessageList(&b, 0, TextOptions{}).Close(NewDocument(&flows.Snapshot{}, Capture{})); err != nil {
		t.Fatal(err)
	}
	if b.String() != "  no messages\n" {
		t.Errorf("%q", b.String())
	}
}

// What a message takes at its responder: nothing where it is one-sided, and nobody knows where it failed halfway.
func TestConsumes(t *testing.T) {
	for _, c := range []struct {
		flags  dissect.OpFlags
		status flows.Status
		want   *int
		text   string
	}{
		{0, flows.StatusSuccess, ptr(0), "SQ"},
		{0, flows.StatusRemAccess, ptr(0), "SQ"},
		{dissect.ConsumesReceive, flows.StatusSuccess, ptr(1), "SQ + RQ"},
		{dissect.ConsumesReceive, flows.StatusSent, ptr(1), "SQ + RQ"},
		{dissect.ConsumesReceive, flows.StatusRNRRetry, ptr(0), "SQ"},
		{dissect.ConsumesReceive, flows.StatusRemInvReq, nil, "SQ + ?"},
		{dissect.ConsumesReceive, flows.StatusOpen, nil, "SQ + ?"},
	} {
		m := NewMessage(&flows.Message{Op: flows.OpSend, Flags: c.flags, Status: c.status})
		if diff := cmp.Diff(Consumes{SQ: 1, RQ: c.want, RQCQE: c.want}, m.Consumes); diff != "" || consumesText(&m) != c.text {
			t.Errorf("%v, %v: %s: %s", c.flags, c.status, consumesText(&m), diff)
		}
	}
}
