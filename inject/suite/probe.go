package suite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// The words of a Probe.
const (
	probeOK     = "ok"
	probeSilent = "silent"
	probeWrong  = "answers wrongly"
	probeAnew   = "ok on a new connection"
)

// live probes for life: a ping, a good WRITE on the case's queue pair, and one on another.
func (r *runner) live() error {
	r.l.usual = true
	if r.l.gate != nil {
		if err := r.l.do(func() error { r.l.gate.off = true; return nil }); err != nil {
			return err
		}
	}
	if _, err := r.await(time.Millisecond, never); err != nil {
		return err
	}
	r.from = len(r.w.records)
	if err := r.fallen(r.l.pairs[0]); err != nil {
		return err
	}
	before := r.problems
	r.problems = nil
	defer func() { r.problems = append(before, r.problems...) }()

	subject := r.l.pairs[0]
	if subject.dead && r.l.anew && subject.transport != dissect.UD {
		if err := r.reset(subject); err != nil {
			r.probe.Same = probeSilent
			r.problem(Problem{Kind: "probe", Required: "the queue pair can be made anew behind its error", Seen: err.Error()})
		}
	}
	word := func(p *pair) (string, error) {
		n, from := len(r.problems), len(r.w.records)
		err := r.probeWrite(p)
		if err == nil && r.c.Role == requester && len(r.problems) == n {
			n64 := 64
			err = r.request(p, &Step{Device: "write", Length: &n64, Count: 1, At: regionSize - 4096})
		}
		switch {
		case errors.Is(err, ErrUnsupported):
			return "", nil
		case err != nil:
			return "", err
		case len(r.problems) == n:
			return probeOK, nil
		}
		for i := from; i < len(r.w.records); i++ {
			if a := &r.w.records[i]; !a.ours && a.p.Has(dissect.LayerBTH) && a.p.DestQP == p.local.QPN {
				return probeWrong, nil
			}
		}
		return probeSilent, nil
	}
	var err error
	if r.probe.Same == "" && !subject.dead {
		if r.probe.Same, err = word(subject); err != nil {
			return err
		}
		// Where something went wrong before, the two sides may no longer agree on PSNs: that is no hang if a new connection works.
		if r.probe.Same != probeOK && len(before) > 0 && r.l.anew && subject.transport == dissect.RC {
			told := r.problems
			r.problems = nil
			if err := r.reset(subject); err != nil {
				return err
			}
			if r.probe.Same, err = word(subject); err != nil {
				return err
			}
			if r.probe.Same == probeOK {
				r.probe.Same, told = probeAnew, nil
			}
			r.problems = append(told, r.problems...)
		}
	}
	if len(r.l.pairs) > 1 {
		if r.probe.Other, err = word(r.l.pairs[1]); err != nil {
			return err
		}
	}
	if r.pings != nil && *r.pings {
		ok, err := r.ping()
		if err != nil {
			return err
		}
		r.probe.Ping = probeOK
		if !ok {
			r.probe.Ping = probeSilent
		}
	}
	for i := range r.problems {
		r.problems[i].Kind = "probe"
	}
	if r.probe.Ping == probeSilent {
		r.problem(Problem{Kind: "probe", Required: "a ping is answered, as it was before the case", Seen: "no answer"})
	}
	return nil
}

// fallen asks whether the device's queue pair is in ERROR though none of its completions said so: then it is no hang that it is mute.
func (r *runner) fallen(p *pair) error {
	if r.c.Role != requester || p.dead {
		return nil
	}
	a, err := r.l.ask(&Command{Do: "completions", QP: pairName(p.index)})
	if errors.Is(err, ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, c := range a.Completions {
		p.dead = p.dead || !c.Receive && c.Status != "SUCCESS"
	}
	p.dead = p.dead || a.State == "RESET" // the device has ended it itself
	if p.dead || !strings.HasPrefix(a.State, "ERR") {
		return nil
	}
	p.dead = true
	r.problem(Problem{
		Kind: "state", Required: "a queue pair that goes to ERROR has a completion that says why", Seen: "it is in ERROR, and no completion is an error",
		Rule: "IBA 10.3.1.7", Packets: r.packets(0, len(r.w.records)),
	})
	return nil
}

// probeWrite writes 64 bytes, by a crafted packet, as no rule and no fault is in its way.
func (r *runner) probeWrite(p *pair) error {
	s := &Step{At: int64(r.main.Length - 1024*(p.index+1)), Times: 1}
	p.gap = 0
	switch p.transport {
	case dissect.RC:
		s.Send = "RC_RDMA_WRITE_ONLY"
		if r.o.Profile.denies("write") {
			s.Send, s.At = "RC_SEND_ONLY", 0
		}
	case dissect.UC:
		s.Send = "UC_RDMA_WRITE_ONLY"
	default:
		s.Send = "UD_SEND_ONLY"
	}
	x, err := r.craft(p, s)
	if err != nil {
		return err
	}
	return r.offer(p, s, x)
}

// verdict names what a probe found.
func (p *Probe) verdict() string {
	var dead []string
	if p.Ping == probeSilent {
		dead = append(dead, "answers no ping")
	}
	switch {
	case p.Same == probeSilent && p.Other == probeSilent:
		dead = append(dead, "executes requests on no queue pair")
	case p.Same == probeSilent:
		dead = append(dead, "executes no request on this queue pair")
	case p.Other == probeSilent:
		dead = append(dead, "executes no request on another queue pair")
	}
	if len(dead) == 0 {
		return ""
	}
	return "behind the case the device " + strings.Join(dead, " and ") + " any more"
}

// ping sends an echo request and waits for the answer.
func (r *runner) ping() (bool, error) {
	p := r.l.pairs[0]
	r.salt++
	frame := echo(p.outer, uint16(r.salt))
	if err := r.digest(); err != nil {
		return false, err
	}
	from := len(r.w.records)
	if err := r.l.send(frame); err != nil {
		return false, err
	}
	return r.await(r.l.patient, func() bool {
		for _, a := range r.w.records[from:] {
			if !a.ours && isEcho(a.data, frame) {
				return true
			}
		}
		return false
	})
}

// echo is an ICMP or ICMPv6 echo request.
func echo(o dissect.Outer, n uint16) []byte {
	b := append(append([]byte(nil), o.DstMAC[:]...), o.SrcMAC[:]...)
	body := []byte{8, 0, 0, 0, 0x52, 0x63, byte(n >> 8), byte(n), 'a', 'l', 'i', 'v', 'e', '?', 0, 0}
	src, dst := o.Src.AsSlice(), o.Dst.AsSlice()
	if o.Src.Is4() {
		binary.BigEndian.PutUint16(body[2:], checksum(body))
		h := append([]byte{0x45, 0, 0, byte(20 + len(body)), 0, 0, 0x40, 0, 64, 1, 0, 0}, append(src, dst...)...)
		binary.BigEndian.PutUint16(h[10:], checksum(h))
		return append(append(append(b, 0x08, 0), h...), body...)
	}
	body[0] = 128
	pseudo := append(append(append([]byte(nil), src...), dst...), 0, 0, 0, byte(len(body)), 0, 0, 0, 58)
	binary.BigEndian.PutUint16(body[2:], checksum(append(pseudo, body...)))
	h := append([]byte{0x60, 0, 0, 0, 0, byte(len(body)), 58, 64}, append(src, dst...)...)
	return append(append(append(b, 0x86, 0xDD), h...), body...)
}

func checksum(b []byte) uint16 { return ^dissect.FoldSum(dissect.OnesSum(0, b)) }

// isEcho reports whether a frame answers an echo request.
func isEcho(b, request []byte) bool {
	head, kind := 34, byte(0)
	if request[12] == 0x86 {
		head, kind = 54, 129
	}
	return len(b) >= head+16 && b[12] == request[12] && b[head] == kind && string(b[head+4:head+14]) == string(request[head+4:head+14])
}

// compare compares all of the device's memory that can be seen with what it has to be.
func (r *runner) compare() error {
	a, err := r.l.ask(&Command{Do: "memory", QP: pairName(0), Memory: "region", Length: r.main.Length})
	if errors.Is(err, ErrUnsupported) {
		return r.readBack()
	}
	if err != nil {
		return err
	}
	r.differs("memory", 0, a.Data, r.model)
	for name, was := range r.others {
		a, err := r.l.ask(&Command{Do: "memory", QP: pairName(0), Memory: name, Length: otherSize})
		if err != nil {
			return err
		}
		if at := differ(a.Data, was); at >= 0 {
			r.problem(Problem{Kind: "memory", Required: "memory that may not be written (" + name + ") stays as it was", Seen: fmt.Sprintf("byte %d is %#02x where %#02x was", at, a.Data[at], was[at])})
		}
	}
	return nil
}

// differs tells of the first byte that is not as it has to be.
func (r *runner) differs(kind string, from int, got, want []byte) {
	n, first := 0, -1
	for i := range got {
		if got[i] != want[i] && !r.vague[from+i] {
			if first < 0 {
				first = i
			}
			n++
		}
	}
	if first < 0 {
		return
	}
	r.problem(Problem{
		Kind: kind, Required: "the device's memory has what was executed, and nothing else",
		Seen: fmt.Sprintf("%d bytes differ, the first at offset %d: %#02x instead of %#02x", n, from+first, got[first], want[first]),
	})
}

// readBack reads the parts of the memory that are known by READs on the bystander.
func (r *runner) readBack() error {
	p := r.l.pairs[len(r.l.pairs)-1]
	if r.o.Profile.denies("read") || p.transport != dissect.RC || p.dead {
		return nil
	}
	for at := 0; at < len(r.model); {
		if r.vague[at] {
			at++
			continue
		}
		end := at
		for end < len(r.model) && !r.vague[end] && end-at < p.mtu {
			end++
		}
		n := end - at
		s := &Step{Send: "RC_RDMA_READ_REQUEST", Length: &n, At: int64(at), Times: 1}
		before := len(r.problems)
		x, err := r.craft(p, s)
		if err != nil {
			return err
		}
		if err := r.offer(p, s, x); err != nil {
			return err
		}
		for i := before; i < len(r.problems); i++ {
			r.problems[i].Kind = "memory"
		}
		at = end
	}
	return nil
}

// breaks are the findings of flows that are the doing of who sent the packet that proves them.
var breaks = map[string]bool{
	"bad_icrc": true, "icrc_mistake": true, "reserved_opcode": true, "transport_version": true, "pad_count": true, "payload_mtu": true,
	"payload_length": true, "opcode_order": true, "message_length": true, "psn_jump": true, "psn_start": true, "ghost_ack": true,
	"rnr_early": true, "read_psn_span": true, "atomic_unaligned": true, "msn_count": true, "reserved_syndrome": true, "read_depth": true,
	"atomic_replay": true, "read_differs": true, "udp_checksum": true, "zero_mac": true, "pause_malformed": true,
}

// findings holds against the device what flows finds about its packets, and what dissect finds wrong with them.
func (r *runner) findings() {
	told := map[string]bool{}
	allowed := map[string]bool{}
	for _, a := range r.c.Allow {
		allowed[a] = true
	}
	tell := func(id string, p Problem) {
		if !told[id] && !allowed[id] {
			told[id] = true
			r.problem(p)
		}
	}
	for i := range r.w.findings {
		f := &r.w.findings[i]
		id := f.ID.String()
		if !breaks[id] || f.Severity() < flows.Warning || f.Frame == 0 || int(f.Frame) > len(r.w.records) || r.w.records[f.Frame-1].ours {
			continue
		}
		tell(id, Problem{Kind: "finding", Required: "no " + id + ": " + f.Check().Title, Seen: f.Summary, Rule: f.Check().Rule, Packets: r.packets(int(f.Frame)-2, int(f.Frame))})
	}
	for i := range r.w.records {
		a := &r.w.records[i]
		if a.ours || !a.p.Has(dissect.LayerBTH) {
			continue
		}
		for _, p := range a.p.Problems() {
			if a.p.Malformed() {
				tell("malformed", Problem{Kind: "finding", Required: "the device's packets are well-formed", Seen: fmt.Sprint(p), Packets: r.packets(i, i+1)})
			}
		}
		if a.p.HopLimit <= 1 {
			tell("hop_limit", Problem{
				Kind: "finding", Required: "a hop limit that reaches beyond a router", Seen: fmt.Sprint(a.p.HopLimit), Rule: "IETF RFC 1122 3.2.1.7; D65", Packets: r.packets(i, i+1),
			})
		}
	}
}

// packets are records in lines, the last dozen of them.
func (r *runner) packets(from, to int) (out []Packet) {
	from, to = max(from, 0), min(to, len(r.w.records))
	const most = 12
	for i := max(from, to-most); i < to; i++ {
		out = append(out, r.packet(i))
	}
	return out
}

// packet is a record in a line.
func (r *runner) packet(i int) Packet {
	a := &r.w.records[i]
	x := Packet{Frame: i + 1, Time: Seconds(a.time - r.begun), From: "device"}
	if a.ours {
		x.From = "us"
	}
	p := &a.p
	if !p.Has(dissect.LayerBTH) {
		x.Text = fmt.Sprintf("no RoCE, %d bytes", len(a.data))
		return x
	}
	op := p.Op()
	var b strings.Builder
	fmt.Fprintf(&b, "%s to QP %#06x, PSN %d", op.Name, p.DestQP, p.PSN)
	if p.Has(dissect.LayerAETH) {
		fmt.Fprintf(&b, ", %v, MSN %d", p.Syndrome, p.MSN)
	}
	if p.Has(dissect.LayerRETH) {
		fmt.Fprintf(&b, ", VA %#x, rkey %#x, length %d", p.VA, p.RKey, p.DMALen)
	}
	if n := p.PayloadLen(); n > 0 && p.Has(dissect.LayerPayload) {
		fmt.Fprintf(&b, ", %d bytes", n)
	}
	if p.AckReq && op.Role == dissect.Request {
		b.WriteString(", AckReq")
	}
	if p.ICRC == dissect.ICRCInvalid {
		b.WriteString(", wrong ICRC")
	}
	x.Text = b.String()
	return x
}
