package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/inject/rnic"
)

// post has our RNIC request.
func (r *runner) post(p *pair, s *Step) error {
	if s.Unrecorded {
		if err := r.l.do(func() error { r.l.tap.silent = true; return nil }); err != nil {
			return err
		}
		defer func() { _ = r.l.do(func() error { r.l.tap.silent = false; return nil }) }()
	}
	for left := s.Count; left > postMost && len(r.problems) == 0; left -= postMost {
		part := *s
		part.Count, part.Unrecorded = postMost, false
		if err := r.post(p, &part); err != nil {
			return err
		}
		if left-postMost <= postMost {
			part.Count = left - postMost
			return r.post(p, &part)
		}
	}
	n := 64
	if s.Length != nil {
		n = *s.Length
	}
	op := operations[s.Post]
	atomic := op == rnic.OpCompareSwap || op == rnic.OpFetchAdd
	if atomic {
		n = 8
	}
	mem, err := p.memory(s.Key, r.l)
	if err != nil {
		return err
	}
	for i := range s.Count {
		wr := rnic.SendWR{ID: uint64(i), Op: op, Flags: rnic.Signaled, RKey: mem.RKey, RemoteVA: mem.VA + uint64(s.At), CompareAdd: s.Add, Imm: s.Imm, AH: p.ah, DstQP: p.remote.QPN, QKey: suiteQKey}
		if !atomic {
			wr.RemoteVA += uint64(i * n)
		}
		mr, at := r.l.source, &r.l.offset
		if op == rnic.OpRead || atomic {
			mr, at = r.l.sink, &r.l.sunk
		}
		if n > regionSize/2 {
			if mr, err = r.l.roomFor(n); err != nil {
				return err
			}
			wr.SGL = []rnic.SGE{mr.SGE(0, n)}
		} else {
			if *at+n > regionSize/2 {
				*at = 0
			}
			if n > 0 {
				wr.SGL = []rnic.SGE{mr.SGE(*at, n)}
			}
			*at += n
		}
		if op == rnic.OpWrite || op == rnic.OpWriteImm {
			if off, inside := r.offset(wr.RemoteVA, n); inside {
				copy(r.model[off:], mr.Bytes()[wr.SGL[0].VA-mr.VA():][:n])
				clear(r.vague[off : off+n])
			}
		}
		if op == rnic.OpFetchAdd {
			r.setWord(wr.RemoteVA, r.word(wr.RemoteVA)+s.Add)
		}
		if err := r.l.do(func() error { return p.qp.PostSend(wr) }); err != nil {
			return err
		}
		p.psn = p.psn.Add(max(1, (n+p.mtu-1)/p.mtu))
		p.msn = p.msn.Add(1)
	}
	var got []string
	var buf [64]rnic.Completion
	ended := func() bool {
		for k := 1; k > 0; {
			k = r.l.cq.Poll(buf[:])
			for _, c := range buf[:k] {
				if c.ID < recvID && c.QPN == p.qp.QPN() {
					got = append(got, statusWord(c.Status))
				}
			}
		}
		return len(got) >= s.Count
	}
	patience := r.within(s)
	if s.Within == 0 {
		patience = min(max(patience*50, 2*time.Second), 10*time.Second)
	}
	if _, err := r.await(patience, ended); err != nil {
		return err
	}
	want := s.Expect
	if len(want) == 0 {
		want = words{"SUCCESS"}
	}
	r.statuses(p, fmt.Sprintf("%d of our %s", s.Count, s.Post), s.Count, want, got)
	if s.Key == "huge" && len(r.problems) == 0 {
		return r.compareHuge(p, n)
	}
	return nil
}

// statuses judges completions.
func (r *runner) statuses(p *pair, what string, count int, want words, got []string) {
	bad := len(got) != count
	for i, g := range got {
		if g != "SUCCESS" {
			p.dead = true
		}
		// Behind the first error all is flushed; before it, messages may have succeeded.
		flushed := g == "WR_FLUSH_ERR" && i > 0 && got[i-1] != "SUCCESS"
		early := g == "SUCCESS" && !slices.Contains(want, g) && i < len(got)-1
		if !slices.Contains(want, g) && !slices.Contains(want, outAny) && !flushed && !early {
			bad = true
		}
	}
	if !slices.Contains(want, "SUCCESS") && !slices.Contains(want, outAny) && !slices.ContainsFunc(got, func(g string) bool { return slices.Contains(want, g) }) {
		bad = true
	}
	if !bad || slices.Contains(want, outAny) {
		return
	}
	if len(got) == 0 {
		got = []string{"none"}
	}
	r.problem(Problem{
		Kind: "completion", Required: fmt.Sprintf("%s: %d completions, %s", what, count, strings.Join(want, " or ")),
		Seen: fmt.Sprintf("%d: %s", len(got), strings.Join(compress(got), ", ")), Packets: r.packets(r.from, len(r.w.records)),
	})
}

// compress counts equal neighbours.
func compress(list []string) (out []string) {
	for i := 0; i < len(list); {
		j := i
		for j < len(list) && list[j] == list[i] {
			j++
		}
		text := list[i]
		if j-i > 1 {
			text = fmt.Sprintf("%d × %s", j-i, text)
		}
		out = append(out, text)
		i = j
	}
	return out
}
