package captures

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQueue(t *testing.T) {
	q := NewQueue(0, []Interface{someInterface})
	frames := someFrames(5000)
	go func() {
		for i := 0; i < len(frames); i += 100 {
			q.Offer(frames[i : i+100])
		}
		q.End(nil)
	}()
	g := drain(t, q, 33)
	if diff := cmp.Diff(frames, g.frames); diff != "" || q.Dropped() != 0 {
		t.Errorf("%d dropped; frames (-offered +read):\n%s", q.Dropped(), diff)
	}
}

func TestQueueFull(t *testing.T) {
	q := NewQueue(2*chunkSize, nil)
	frames := someFrames(5000)
	dropped := q.Offer(frames)
	if dropped == 0 || q.Offer(frames[:1]) != 1 || q.Dropped() != uint64(dropped+1) {
		t.Errorf("%d dropped, in all %d", dropped, q.Dropped())
	}
	kept := len(frames) - dropped
	batch := make([]Frame, kept)
	n, err := q.ReadBatch(batch)
	if err != nil || !bytes.Equal(batch[0].Data, frames[0].Data) {
		t.Fatal(n, err)
	}
	q.Offer(frames[:1]) // what is read is still borrowed, so there is no room yet
	for n < kept {
		m, err := q.ReadBatch(batch)
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	broken := errors.New("the wire was cut")
	q.End(broken)
	q.End(io.EOF)
	if _, err := q.ReadBatch(batch); !errors.Is(err, broken) {
		t.Errorf("it ends with %v", err)
	}
	if q.Offer(frames[:1]) != 0 {
		t.Error("there is no room though all was read")
	}
}
