//go:build linux

package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rocescope/rocescope/internal/xsk"
)

// Constant frames, by as little code as there can be: what unique frames are compared with.

//go:embed baseline/txonly.c
var txonlySource []byte

// batch is how many frames all senders over AF_XDP hand over at a time, and how many the kernel may send in one call.
const batch = 512

// compile builds the sender in C, where there is a compiler.
func (b *bench) compile() error {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return nil
	}
	source, program := filepath.Join(b.dir, "txonly.c"), filepath.Join(b.dir, "txonly")
	if err := os.WriteFile(source, txonlySource, 0o600); err != nil {
		return err
	}
	if out, err := exec.Command(cc, "-O2", "-o", program, source).CombinedOutput(); err != nil {
		return fmt.Errorf("build the sender in C: %w: %s", err, out)
	}
	b.txonly = program
	return nil
}

// inC sends constant frames by the program in C.
func (b *bench) inC(s *sink, frame []byte) contestant {
	return func(packets int) (r result, err error) {
		before, err := s.arrived()
		if err != nil {
			return r, err
		}
		cmd := exec.Command(b.txonly, near, strconv.Itoa(packets), strconv.Itoa(batch), strconv.Itoa(batch))
		cmd.Stdin, cmd.Stderr = bytes.NewReader(frame), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return r, fmt.Errorf("the sender in C: %w", err)
		}
		var done, refused uint64
		if _, err := fmt.Sscan(string(out), &done, &refused, (*int64)(&r.cpu)); err != nil {
			return r, fmt.Errorf("the sender in C: %w", err)
		}
		after, err := s.arrived()
		r.arrived = after - before
		return r, err
	}
}

// inGo sends constant frames from prepared chunks. A frame that does not fit into one chunk is cut at the places given.
func inGo(s *sink, frame []byte, cuts ...int) contestant {
	return func(packets int) (r result, err error) {
		u, err := xsk.NewUMEM(xsk.UMEMOptions{Chunks: 2048}) // more than are used: few chunks stay in the cache
		if err != nil {
			return r, err
		}
		defer u.Close()
		parts := len(cuts) + 1
		budget := batch * parts
		tx, err := xsk.Open(xsk.Options{Interface: near, UMEM: u, TX: 2048, TxBudget: budget, MultiBuffer: parts > 1, Mode: xsk.Copy})
		if err != nil {
			return r, err
		}
		defer tx.Close()
		chunks, ok := u.Take(batch * parts)
		if !ok {
			return r, fmt.Errorf("no chunks")
		}
		descs := make([]xsk.Desc, len(chunks))
		for i := range descs {
			k, rest := i%parts, frame
			for _, c := range cuts[:k] {
				rest = frame[c:]
			}
			descs[i] = xsk.Desc{Addr: chunks[i], Len: uint32(len(rest))}
			if k < len(cuts) {
				from := len(frame) - len(rest)
				descs[i].Len, descs[i].Options = uint32(cuts[k]-from), xsk.OptionContinued
			}
			copy(u.Bytes(chunks[i], descs[i].Len), rest)
		}
		return loop(s.arrived, func() error { return sendConstant(tx, descs, packets, parts) })
	}
}

// sendConstant is the loop.
func sendConstant(tx *xsk.Socket, descs []xsk.Desc, packets, parts int) error {
	next := 0
	for sent := 0; sent < packets; {
		n := min(batch, packets-sent) * parts
		at, got := tx.TX.Reserve(uint32(n))
		if int(got) < n { // whole packets only
			tx.TX.Cancel(got)
		} else {
			for i := range got {
				*tx.TX.Slot(at + i) = descs[next]
				if next++; next == len(descs) {
					next = 0
				}
			}
			tx.TX.Submit(got)
			sent += n / parts
		}
		if _, err := tx.Kick(); err != nil {
			return err
		}
		tx.ReapAll()
	}
	if done, err := tx.Drain(5 * time.Second); err != nil || !done {
		return fmt.Errorf("frames stay in the ring: %w", err)
	}
	return nil
}
