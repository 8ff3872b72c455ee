package bringup

import (
	"bytes"
	"context"
	"fmt"

	"github.com/rocescope/rocescope/inject/rnic"
)

// losses are the messages of the step "loss". No other step has messages of these lengths.
var losses = []struct {
	what   string
	do     string // the action
	nth    int    // which message of the length it strikes
	length int
	op     rnic.Op
}{
	{"the first packet of a WRITE is lost", "drop", 1, 13001, rnic.OpWrite},
	{"a WRITE of one packet is lost", "drop", 1, 201, rnic.OpWrite},
	{"a WRITE of one packet comes again behind another to the same address", "replay", 2, 203, rnic.OpWrite},
	{"a READ request is lost", "drop", 1, 13005, rnic.OpRead},
	{"a READ request comes twice", "duplicate", 1, 13007, rnic.OpRead},
}

func (r *run) loss(ctx context.Context) (string, error) {
	made := 0
	for i, l := range losses {
		if l.length+2*guard > int(r.memory.Length) {
			continue
		}
		for range l.nth - 1 {
			r.fill(l.length)
			if err := r.write(ctx, 0, l.length); err != nil {
				return "", fmt.Errorf("WRITE of %d bytes: %w", l.length, err)
			}
		}
		if err := r.lose(ctx, i, l.length, l.op); err != nil {
			return "", fmt.Errorf("%s: %w", l.what, err)
		}
		made++
	}
	if made == 0 {
		return "", errSkip(fmt.Sprintf("%d bytes of memory are too few", r.memory.Length))
	}
	return fmt.Sprintf("%d packets were lost or doubled, and all data is right", made), nil
}

// lose has a message struck, and looks at what it did.
func (r *run) lose(ctx context.Context, rule, n int, op rnic.Op) error {
	before := r.struck(rule)
	want := bytes.Clone(r.fill(n))
	if op == rnic.OpRead {
		for at := 0; at < n; at += 8000 { // by other lengths than the one that is struck
			part := min(8000, n-at)
			w := rnic.SendWR{Op: rnic.OpWrite, SGL: []rnic.SGE{r.mr.SGE(outAt+at, part)}, RemoteVA: uint64(at)}
			if err := r.post(ctx, w); err != nil {
				return fmt.Errorf("WRITE before it: %w", err)
			}
		}
		got, err := r.readBack(ctx, 0, n)
		if err != nil {
			return err
		}
		return r.judge(got, want, rule, before)
	}
	if err := r.write(ctx, 0, n); err != nil {
		return err
	}
	got, err := r.readBack(ctx, 0, n+1)
	if err != nil {
		return fmt.Errorf("READ behind it: %w", err)
	}
	return r.judge(got[:n], want, rule, before)
}

func (r *run) judge(got, want []byte, rule int, before uint64) error {
	if r.struck(rule) == before {
		return fmt.Errorf("the packet was not struck: the host does not have the rules of Rules")
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("byte %d is %#02x, and was to be %#02x", i, got[i], want[i])
		}
	}
	return nil
}

// struck is how many packets a rule struck on their way out.
func (r *run) struck(rule int) uint64 {
	counts, _ := r.h.Faults()
	if rule >= len(counts) {
		return 0
	}
	return counts[rule].Struck
}
