package diff

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/events"
	"github.com/rocescope/rocescope/internal/testkit"
)

// eventLog writes a capture's event log.
func eventLog(t *testing.T, path string) []byte {
	t.Helper()
	src, err := captures.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	w := events.New(&log, "test", []string{path})
	o := engine.Options{CheckICRC: true, Track: true, Sinks: []engine.Sink{w}}
	w.Listen(&o.Tracker.Sink)
	got, err := engine.New(o).Run(context.Background(), src)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(got.Snapshot); err != nil {
		t.Fatal(err)
	}
	return log.Bytes()
}

// A log says of messages, connections and findings what its capture does.
func TestLogTellsTheSame(t *testing.T) {
	for _, pair := range testkit.TwoTapManifest(t).Pairs {
		for _, tap := range []string{"a", "b"} {
			path := filepath.Join(testkit.TwoTap(t), pair.Pair+"_tap_"+tap+".pcap")
			want, err := Tell(context.Background(), side(path), nil)
			if err != nil {
				t.Fatal(err)
			}
			log := eventLog(t, path)
			got, err := ReadLog(bytes.NewReader(log))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the log tells\n%+v\nthe capture\n%+v", filepath.Base(path), got, want)
			}
			cut := log[:bytes.LastIndexByte(log[:len(log)-1], '\n')+1]
			var damage *DamageError
			if _, err := ReadLog(bytes.NewReader(cut)); !errors.Is(err, io.ErrUnexpectedEOF) || !errors.As(err, &damage) {
				t.Errorf("%s, cut off: %v", filepath.Base(path), err)
			}
		}
	}
}
