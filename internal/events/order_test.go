package events

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/testkit"
)

// Connections and states come when packets prove them, in their order, and are those of the records at the end.
func TestStatesComeInTime(t *testing.T) {
	for _, name := range []string{"cm_rping_ipv6", "lost_write_recovered", "rnr_wait", "psn_wrap"} {
		t.Run(name, func(t *testing.T) {
			src, err := captures.Open(filepath.Join(testkit.ModuleRoot(t), "captures", "samples", name+".pcap"))
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			var log bytes.Buffer
			w := New(&log, "test", nil)
			o := engine.Options{CheckICRC: true, Track: true, Sinks: []engine.Sink{w}}
			w.Listen(&o.Tracker.Sink)
			got, err := engine.New(o).Run(context.Background(), src)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Close(got.Snapshot); err != nil {
				t.Fatal(err)
			}
			type stepOf struct {
				conn  uint32
				qp    string
				state string
				frame uint64
			}
			var told, want []stepOf
			last, ended, peers := uint64(0), false, map[uint32]bool{}
			err = Read(&log, func(e *Event) {
				ended = ended || e.Type == typeConnection
				switch e.Type {
				case typePeers:
					peers[e.Conn] = true
				case typeState:
					told = append(told, stepOf{e.Conn, e.QP, e.State, e.Frame})
					if ended && e.Presumed == nil || !peers[e.Conn] {
						t.Errorf("%+v: told behind the end, or before its peers", e)
					}
				}
				switch e.Type {
				case typePeers, typeState, typeStream, typeNAK, typeResent:
					if !ended && e.Frame < last {
						t.Errorf("%s of frame %d comes behind frame %d", e.Type, e.Frame, last)
					}
					last = max(last, e.Frame)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range got.Snapshot.Connections {
				c := &got.Snapshot.Connections[i]
				for qp, q := range map[string]*flows.QP{"a": &c.A, "b": &c.B} {
					for _, s := range q.History {
						want = append(want, stepOf{c.ID, qp, s.State.String(), s.Frame})
					}
				}
			}
			for _, s := range want {
				if !slices.Contains(told, s) {
					t.Errorf("%+v is not told", s)
				}
			}
			if len(told) != len(want) {
				t.Errorf("%d states are told, there are %d: %+v", len(told), len(want), told)
			}
		})
	}
}
