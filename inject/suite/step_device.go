package suite

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"time"
)

// request has the device request, and looks at what becomes of it and of the data.
func (r *runner) request(p *pair, s *Step) error {
	n := s.deviceLength()
	name := pairName(p.index)
	if p.owed == 0 {
		if _, err := r.l.ask(&Command{Do: "completions", QP: name}); err != nil {
			return err
		}
	}
	before, err := r.l.contents()
	if err != nil {
		return err
	}
	c := &Command{
		Do: "post", QP: name, Operation: s.Device, Length: n, Count: s.Count, RKey: p.local.RKey, VA: p.local.VA + uint64(s.At),
		Add: s.Add, Compare: or(s.Cmp, 0), BadKey: s.BadKey,
	}
	if _, err := r.l.ask(c); err != nil {
		return err
	}
	at := p.places(s.Device, n, s.Count)
	p.owed += s.Count
	if s.NoWait {
		return nil
	}
	due := p.owed
	p.owed = 0
	var got []string
	var failure error
	ended := func() bool {
		a, err := r.l.ask(&Command{Do: "completions", QP: name})
		if err != nil {
			failure = err
			return true
		}
		for _, c := range a.Completions {
			if !c.Receive {
				got = append(got, c.Status)
			}
		}
		return len(got) >= due
	}
	patience := r.within(s)
	if s.Within == 0 {
		patience = min(max(patience*500, time.Second), 10*time.Second)
	}
	if _, err := r.await(patience, ended); err != nil {
		return err
	}
	if failure != nil {
		return failure
	}
	want := s.Expect
	if len(want) == 0 {
		want = words{"SUCCESS"}
	}
	r.statuses(p, fmt.Sprintf("%d of the device's %s of %d bytes", s.Count, s.Device, n), due, want, got)
	if p.dead || len(got) < due {
		return nil
	}
	return r.arrived(p, s, n, at, before)
}

// deviceLength is how long the messages are that a step has the device post.
func (s *Step) deviceLength() int {
	switch {
	case s.Device == "compare-swap", s.Device == "fetch-add":
		return 8
	case s.Length != nil:
		return *s.Length
	}
	return 64
}

// posts is what the case has the device post on a queue pair.
func (c *Case) posts(name string) (all []Posted) {
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.Device != "" && cmp.Or(s.QP, pairName(0)) == name {
			all = append(all, Posted{s.Device, s.deviceLength(), s.Count})
		}
	}
	return all
}

// places are where a device's messages lie in its memory source, or sink: one behind the other, and from 0 on where one does not fit.
func (p *pair) places(op string, n, count int) (at []int) {
	next := &p.source
	if op == "read" || op == "fetch-add" || op == "compare-swap" {
		next = &p.sink
	}
	for range count {
		if *next+n > regionSize {
			*next = 0
		}
		at = append(at, *next)
		*next += n
	}
	return at
}

// arrived compares the data of a device's requests at both ends.
func (r *runner) arrived(p *pair, s *Step, n int, at []int, before []byte) error {
	memory, far := "", []byte(nil)
	switch s.Device {
	case "write", "write-imm":
		memory = "source"
	case "read":
		memory = "sink"
	case "fetch-add":
		due := uint64(s.Count) * s.Add
		here, err := r.l.contents()
		if err != nil {
			return err
		}
		if moved := leWord(here[s.At:]) - leWord(before[s.At:]); moved != due {
			r.problem(Problem{Kind: "memory", Required: fmt.Sprintf("%d × FETCH_ADD of %d add %d", s.Count, s.Add, due), Seen: fmt.Sprintf("%d was added", moved)})
		}
		return nil
	default:
		return nil
	}
	a, err := r.l.ask(&Command{Do: "memory", QP: pairName(p.index), Memory: memory, Length: regionSize})
	if errors.Is(err, ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	far = a.Data
	here, err := r.l.contents()
	if err != nil {
		return err
	}
	for i := range s.Count {
		from, to := int(s.At)+i*n, at[i]
		if from+n > len(here) || to+n > len(far) {
			break
		}
		if d := differ(here[from:from+n], far[to:to+n]); d >= 0 {
			r.problem(Problem{
				Kind: "memory", Required: fmt.Sprintf("%s: the data is the same at both ends", s.Device),
				Seen:    fmt.Sprintf("message %d: byte %d is %#02x here and %#02x at the device", i+1, d, here[from+d], far[to+d]),
				Packets: r.packets(r.from, len(r.w.records)),
			})
			break
		}
	}
	if s.Device == "write" {
		end := int(s.At) + n*s.Count
		if end < regionSize && !bytes.Equal(before[end:], here[end:]) {
			r.problem(Problem{Kind: "memory", Required: "nothing is written behind the data", Seen: "bytes behind it changed"})
		}
	}
	return nil
}

// differ is the first place where two runs of bytes differ, or -1.
func differ(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

func leWord(b []byte) (v uint64) {
	for i := 7; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}
