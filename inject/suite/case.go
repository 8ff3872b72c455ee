package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/rnic"
)

// runner carries out one case.
type runner struct {
	ctx     context.Context
	o       *Options
	c       *Case
	l       *link
	seed    uint64
	salt    int
	w       *watch
	crafter dissect.Crafter

	main    Numbers
	model   []byte // the device's memory, as it has to be
	vague   []bool // of it: nobody knows
	others  map[string][]byte
	pending []*sent // executed, and not yet acknowledged
	last    *sent
	meters  map[string]int64

	step     int
	from     int // the step's first record
	problems []Problem
	probe    Probe
	pings    *bool
	begun    int64
}

var errFlood = errors.New("the device floods: more frames came than a case may record")

// digest looks at what was recorded since.
func (r *runner) digest() error {
	fresh, flooded := r.l.tap.take()
	r.w.add(fresh)
	if flooded {
		return errFlood
	}
	return nil
}

// await lets time pass until something holds, or for so long.
func (r *runner) await(d time.Duration, holds func() bool) (bool, error) {
	until := r.l.clock() + int64(d)
	for {
		if err := r.digest(); err != nil {
			return false, err
		}
		if holds() {
			return true, nil
		}
		if err := r.ctx.Err(); err != nil {
			return false, context.Cause(r.ctx)
		}
		if r.l.clock() >= until {
			return false, nil
		}
		if err := r.l.pass(until); err != nil {
			return false, err
		}
	}
}

func never() bool { return false }

// run carries the case out.
func (r *runner) run() error {
	r.w = newWatch()
	r.begun = r.l.clock()
	for i := range r.c.Setup.QPs {
		p, err := r.l.connect(i)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		r.l.pairs = append(r.l.pairs, p)
	}
	r.main = r.l.pairs[0].remote
	if err := r.learn(); err != nil {
		return err
	}
	if r.pings == nil && r.l.addrs != nil {
		ok, err := r.ping()
		if err != nil {
			return err
		}
		r.pings = &ok
	}
	for i := range r.c.Steps {
		r.step = i + 1
		if err := r.digest(); err != nil {
			return err
		}
		r.from = len(r.w.records)
		s := &r.c.Steps[i]
		for range s.Times {
			if err := r.do(s); err != nil {
				return fmt.Errorf("step %d: %w", i+1, err)
			}
		}
	}
	r.step = 0
	if err := r.live(); err != nil {
		return err
	}
	if err := r.compare(); err != nil {
		return err
	}
	r.w.tracker.Finish()
	r.findings()
	return nil
}

// learn takes note of the device's memory and counters.
func (r *runner) learn() error {
	r.vague = make([]bool, r.main.Length)
	a, err := r.l.ask(&Command{Do: "memory", QP: pairName(0), Memory: "region", Length: r.main.Length})
	switch {
	case errors.Is(err, ErrUnsupported):
		r.model = make([]byte, r.main.Length)
		for i := range r.vague {
			r.vague[i] = true
		}
	case err != nil:
		return err
	default:
		r.model = a.Data
	}
	r.others = map[string][]byte{}
	for _, name := range []string{"foreign", "readonly"} {
		if _, ok := r.l.pairs[0].keys[name]; !ok {
			continue
		}
		if a, err := r.l.ask(&Command{Do: "memory", QP: pairName(0), Memory: name, Length: otherSize}); err == nil {
			r.others[name] = a.Data
		}
	}
	r.meters, err = r.counters()
	return err
}

func (r *runner) counters() (map[string]int64, error) {
	if r.o.Counters != nil {
		return r.o.Counters(r.ctx)
	}
	a, err := r.l.ask(&Command{Do: "counters"})
	if errors.Is(err, ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return a.Counters, nil
}

// pair is the connection that a step is about.
func (r *runner) pair(s *Step) (*pair, error) {
	i := 0
	switch s.QP {
	case "", "subject":
	case "other":
		i = 1
	default:
		if _, err := fmt.Sscan(s.QP, &i); err != nil {
			return nil, fmt.Errorf("no queue pair is called %q", s.QP)
		}
	}
	if i < 0 || i >= len(r.l.pairs) {
		return nil, fmt.Errorf("there is no queue pair %d: setup.qps says how many there are", i)
	}
	return r.l.pairs[i], nil
}

// do does a step.
func (r *runner) do(s *Step) error {
	p, err := r.pair(s)
	if err != nil {
		return err
	}
	switch {
	case s.Send != "":
		x, err := r.craft(p, s)
		if err != nil {
			return err
		}
		r.last = x
		return r.offer(p, s, x)
	case s.Repeat:
		if r.last == nil {
			return errors.New("nothing was sent that could be repeated")
		}
		return r.offer(p, s, r.last)
	case s.Post != "":
		return r.post(p, s)
	case s.Device != "":
		return r.request(p, s)
	case s.Lose > 0:
		p.gap += uint32(s.Lose)
	case s.Wait > 0:
		_, err := r.await(s.Wait, never)
		return err
	case s.Reset != "":
		return r.reset(p)
	case s.CM:
		return r.askCM(p, s)
	case s.Hook != "":
		return r.command(p, s)
	case s.Packet != nil:
		r.count(s.Packet)
	case s.Meter != nil:
		return r.meter(s.Meter)
	}
	return nil
}

func (r *runner) within(s *Step) time.Duration {
	if s.Within > 0 {
		return s.Within
	}
	return r.l.patient
}

// offer sends a packet and judges what comes of it.
func (r *runner) offer(p *pair, s *Step, x *sent) error {
	if err := r.digest(); err != nil {
		return err
	}
	from := len(r.w.records)
	asked := s.Expect
	info := x.op.Info()
	if len(asked) == 0 {
		switch {
		case info.Role == dissect.Request && x.ack && p.transport == dissect.RC:
			asked = words{outACK}
		default:
			asked = words{outNone}
		}
	}
	x.learn()
	if err := r.l.send(x.frames...); err != nil {
		return err
	}
	if slices.Contains(asked, outNone) {
		if info.Role == dissect.Request && len(x.frames) > 0 && p.follows(x, s) {
			r.accept(p, x)
		}
		_, err := r.await(time.Microsecond, never)
		return err
	}
	patience := r.within(s)
	if slices.Equal(asked, words{outDrop}) {
		patience = max(r.l.quiet, s.Within)
	}
	if _, err := r.await(patience, func() bool { return r.decided(p, x, from) }); err != nil {
		return err
	}
	if _, err := r.await(r.l.quiet/10, never); err != nil { // an answer too many
		return err
	}
	got := r.judge(p, x, from)
	r.settle(p, x, got)
	if slices.Contains(asked, outAny) || slices.Contains(asked, got.word) && got.wrong == "" {
		return nil
	}
	text := got.text
	if got.wrong != "" {
		text += ": " + got.wrong
	}
	var want []string
	for _, w := range asked {
		want = append(want, w+" ("+outcomeTexts[w]+")")
	}
	r.problem(Problem{
		Kind: "answer", Required: describe(x) + ": " + strings.Join(want, " or "), Seen: got.word + ": " + text,
		Packets: r.packets(from-1, len(r.w.records)),
	})
	return nil
}

// follows reports whether the device executes a packet that it does not answer: RC the next one only, UC whatever begins a message.
func (p *pair) follows(x *sent, s *Step) bool {
	if p.transport == dissect.UC && x.op.Info().Starts() {
		return true
	}
	return (p.gap == 0 || s.Late) && !x.psn.Before(p.psn)
}

// learn takes what a rule made of the packet for what was sent.
func (x *sent) learn() {
	if len(x.frames) == 0 {
		return
	}
	var d dissect.Decoder
	var p dissect.Packet
	f := x.frames[0]
	d.Decode(dissect.LinkEthernet, f, len(f), &p)
	if !p.IsTransport() || p.Opcode != x.op {
		return
	}
	x.data, x.psn = slices.Clone(p.Payload(f)), p.PSN
	if p.Has(dissect.LayerRETH) || p.Has(dissect.LayerAtomicETH) {
		x.va = p.VA
	}
	if p.Has(dissect.LayerAtomicETH) {
		x.add, x.compare = p.Swap, p.Compare
	}
}

// settle notes what the device's answer says of its state.
func (r *runner) settle(p *pair, x *sent, got seen) {
	switch got.word {
	case outACK:
		if x.psn == p.psn {
			r.accept(p, x)
		}
		r.pending = nil
	case outInv, outAcc, outOp:
		p.dead = true
		for _, before := range r.pending {
			r.unsure(before)
		}
		r.pending = nil
	}
}

func describe(x *sent) string {
	if len(x.frames) == 0 {
		return "a lost " + x.op.Info().Name
	}
	return fmt.Sprintf("%s, PSN %d", x.op.Info().Name, x.psn)
}

func (r *runner) problem(p Problem) {
	p.Step = r.step
	if len(r.problems) < 32 {
		r.problems = append(r.problems, p)
	}
}

// postMost is how much of our RNIC's is posted at a time.
const postMost = 256

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
		if *at+n > regionSize/2 {
			*at = 0
		}
		if n > 0 {
			wr.SGL = []rnic.SGE{mr.SGE(*at, n)}
		}
		if op == rnic.OpWrite || op == rnic.OpWriteImm {
			if off, inside := r.offset(wr.RemoteVA, n); inside {
				copy(r.model[off:], mr.Bytes()[*at:*at+n])
				clear(r.vague[off : off+n])
			}
		}
		if op == rnic.OpFetchAdd {
			r.setWord(wr.RemoteVA, r.word(wr.RemoteVA)+s.Add)
		}
		*at += n
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

// request has the device request, and looks at what becomes of it and of the data.
func (r *runner) request(p *pair, s *Step) error {
	n := 64
	if s.Length != nil {
		n = *s.Length
	}
	atomic := s.Device == "compare-swap" || s.Device == "fetch-add"
	if atomic {
		n = 8
	}
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

// reset makes a connection anew.
func (r *runner) reset(p *pair) error {
	if err := r.l.do(func() error {
		_ = p.qp.Modify(rnic.Attr{State: rnic.ERROR}, rnic.AttrState)
		return p.qp.Destroy()
	}); err != nil {
		return err
	}
	fresh, err := r.l.connect(p.index)
	if err != nil {
		return fmt.Errorf("connect anew: %w", err)
	}
	*p = *fresh
	return nil
}

// command has the device do something.
func (r *runner) command(p *pair, s *Step) error {
	c := &Command{Do: s.Hook, QP: pairName(p.index), Receives: s.Count, Memory: s.Key}
	if s.Hook == "error" {
		c.Do, c.State = "modify", "ERROR"
		p.dead = true
	}
	if s.Hook == "destroy" {
		p.dead = true
	}
	_, err := r.l.ask(c)
	return err
}

// count counts packets.
func (r *runner) count(c *PacketCheck) {
	if err := r.digest(); err != nil {
		return
	}
	var hits []int
	for i := range r.w.records {
		a := &r.w.records[i]
		if c.From != "both" && a.ours != (c.From == "us") {
			continue
		}
		if c.filter.Match(&a.p, a.data, &a.mark) {
			hits = append(hits, i)
		}
	}
	if len(hits) >= c.Min && (c.Max == nil || len(hits) <= *c.Max) {
		return
	}
	want := fmt.Sprintf("at least %d", c.Min)
	switch {
	case c.Max != nil && *c.Max == c.Min:
		want = fmt.Sprint(c.Min)
	case c.Max != nil && c.Min > 0:
		want = fmt.Sprintf("%d to %d", c.Min, *c.Max)
	case c.Max != nil:
		want = fmt.Sprintf("at most %d", *c.Max)
	}
	p := Problem{Kind: "packets", Required: fmt.Sprintf("%s packets: %s", want, or2(c.What, c.Filter)), Seen: fmt.Sprint(len(hits))}
	for _, i := range hits[:min(len(hits), 12)] {
		p.Packets = append(p.Packets, r.packet(i))
	}
	r.problem(p)
}

// meter looks how a counter moved.
func (r *runner) meter(c *CounterCheck) error {
	now, err := r.counters()
	if err != nil {
		return err
	}
	v, ok := now[c.Name]
	if !ok {
		return nil // a device has the counters that it has
	}
	if moved := v - r.meters[c.Name]; moved < c.Min {
		r.problem(Problem{Kind: "counter", Required: fmt.Sprintf("%s counts %d", c.Name, c.Min), Seen: fmt.Sprint(moved)})
	}
	return nil
}
