package captures

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/net/bpf"
)

// This is the half of capture filters that makes the kernel's program; what is asked for is read in live_filter.go.

// Numbers that the filter compares with.
const (
	etherIPv4   = 0x0800
	etherARP    = 0x0806
	etherVLAN   = 0x8100
	etherQinQ   = 0x88a8
	etherIPv6   = 0x86dd
	etherPause  = 0x8808
	etherRoCEv1 = 0x8915

	protoICMP   = 1
	protoTCP    = 6
	protoUDP    = 17
	protoICMPv6 = 58
	protoAny    = 1 << 16 // none of them

	portRoCE = 4791

	noTag = 1 << 16
)

// What locate leaves in the machine's scratch memory.
const (
	memType  = iota // EtherType behind the VLAN tags
	memNet          // offset of the network header
	memProto        // IP protocol; protoAny where there is none
	memL4           // offset of the transport header
	memPorts        // 1 where there are ports
	memSrc          // ports
	memDst
	memTag // outermost VLAN tag in the frame; noTag without one
	memTmp
)

type side int

const (
	sideAny side = iota
	sideSrc
	sideDst
)

func anyOf(a, b test) test {
	return func(c *filterCode, yes, no label) {
		next := c.label()
		a(c, yes, next)
		c.mark(next)
		b(c, yes, no)
	}
}

func allOf(a, b test) test {
	return func(c *filterCode, yes, no label) {
		next := c.label()
		a(c, next, no)
		c.mark(next)
		b(c, yes, no)
	}
}

// equals tests what locate found.
func equals(slot int, v uint32) test {
	return func(c *filterCode, yes, no label) {
		c.add(bpf.LoadScratch{Dst: bpf.RegA, N: slot})
		c.jump(bpf.JumpEqual, v, yes, no)
	}
}

func isEtherType(v uint32) test { return equals(memType, v) }
func isProto(v uint32) test     { return equals(memProto, v) }

func isPort(proto, port uint32) test {
	t := allOf(equals(memPorts, 1), anyOf(equals(memDst, port), equals(memSrc, port)))
	if proto == protoAny {
		return t
	}
	return allOf(isProto(proto), t)
}

func isNet(s side, n netip.Prefix) test {
	ether, src, dst := uint32(etherIPv4), uint32(12), uint32(16)
	if n.Addr().Is6() && !n.Addr().Is4In6() {
		ether, src, dst = etherIPv6, 8, 24
	}
	addr := n.Addr().Unmap().AsSlice()
	at := func(off uint32) test {
		return func(c *filterCode, yes, no label) {
			c.add(bpf.LoadScratch{Dst: bpf.RegX, N: memNet})
			for left, i := n.Bits(), 0; left > 0; left, i = left-32, i+4 {
				next := c.label()
				mask := ^uint32(0)
				if left < 32 {
					mask <<= 32 - left
				}
				c.add(bpf.LoadIndirect{Off: off + uint32(i), Size: 4})
				c.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask})
				c.jump(bpf.JumpEqual, binary.BigEndian.Uint32(addr[i:])&mask, next, no)
				c.mark(next)
			}
			c.goTo(yes)
		}
	}
	t := anyOf(at(src), at(dst))
	switch s {
	case sideSrc:
		t = at(src)
	case sideDst:
		t = at(dst)
	}
	return allOf(isEtherType(ether), t)
}

// filterCode is a program under construction.
type filterCode struct {
	code   []filterStep
	labels []int // where they are
}

type label int

// filterStep is an instruction, or a jump to labels.
type filterStep struct {
	op      bpf.Instruction
	cond    bpf.JumpTest
	val     uint32
	yes, no label
	kind    uint8
}

const (
	stepPlain = iota
	stepJump
	stepIf // three instructions: conditional jumps do not reach far
)

func (c *filterCode) label() label {
	c.labels = append(c.labels, -1)
	return label(len(c.labels) - 1)
}

func (c *filterCode) mark(l label)           { c.labels[l] = len(c.code) }
func (c *filterCode) add(op bpf.Instruction) { c.code = append(c.code, filterStep{op: op}) }
func (c *filterCode) goTo(l label)           { c.code = append(c.code, filterStep{kind: stepJump, yes: l}) }

func (c *filterCode) jump(cond bpf.JumpTest, val uint32, yes, no label) {
	c.code = append(c.code, filterStep{kind: stepIf, cond: cond, val: val, yes: yes, no: no})
}

func (c *filterCode) set(slot int, v uint32) {
	c.add(bpf.LoadConstant{Dst: bpf.RegA, Val: v})
	c.add(bpf.StoreScratch{Src: bpf.RegA, N: slot})
}

func (c *filterCode) store(slot int) { c.add(bpf.StoreScratch{Src: bpf.RegA, N: slot}) }

func (c *filterCode) assemble() ([]bpf.RawInstruction, error) {
	at := make([]int, len(c.code)+1)
	for i, s := range c.code {
		at[i+1] = at[i] + 1
		if s.kind == stepIf {
			at[i+1] += 2
		}
	}
	var out []bpf.Instruction
	to := func(l label) bpf.Instruction {
		return bpf.Jump{Skip: uint32(at[c.labels[l]] - len(out) - 1)}
	}
	for _, s := range c.code {
		switch s.kind {
		case stepPlain:
			out = append(out, s.op)
		case stepJump:
			out = append(out, to(s.yes))
		case stepIf:
			out = append(out, bpf.JumpIf{Cond: s.cond, Val: s.val, SkipTrue: 0, SkipFalse: 1})
			out = append(out, to(s.yes))
			out = append(out, to(s.no))
		}
	}
	return bpf.Assemble(out)
}

// locate finds the headers once, for all tests. A load behind the end of a frame
// ends the program, and drops the frame.
func (c *filterCode) locate() {
	ip4, ip6, ports, done := c.label(), c.label(), c.label(), c.label()
	for _, slot := range []int{memL4, memPorts, memSrc, memDst, memTmp} {
		c.set(slot, 0)
	}
	c.set(memProto, protoAny)
	c.set(memTag, noTag)

	network := c.label()
	c.add(bpf.LoadAbsolute{Off: 12, Size: 2})
	c.store(memType)
	c.set(memNet, 14)
	for tag := range uint32(2) {
		tagged, other := c.label(), c.label()
		c.add(bpf.LoadScratch{Dst: bpf.RegA, N: memType})
		c.jump(bpf.JumpEqual, etherVLAN, tagged, other)
		c.mark(other)
		c.jump(bpf.JumpEqual, etherQinQ, tagged, network)
		c.mark(tagged)
		if tag == 0 {
			c.add(bpf.LoadAbsolute{Off: 14, Size: 2})
			c.store(memTag)
		}
		c.add(bpf.LoadAbsolute{Off: 16 + 4*tag, Size: 2})
		c.store(memType)
		c.set(memNet, 18+4*tag)
	}
	c.mark(network)

	c.add(bpf.LoadScratch{Dst: bpf.RegA, N: memType})
	not4 := c.label()
	c.jump(bpf.JumpEqual, etherIPv4, ip4, not4)
	c.mark(not4)
	c.jump(bpf.JumpEqual, etherIPv6, ip6, done)

	c.mark(ip4)
	c.add(bpf.LoadScratch{Dst: bpf.RegX, N: memNet})
	c.add(bpf.LoadIndirect{Off: 9, Size: 1})
	c.store(memProto)
	c.add(bpf.LoadIndirect{Off: 0, Size: 1})
	c.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf})
	c.add(bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 2})
	c.add(bpf.ALUOpX{Op: bpf.ALUOpAdd})
	c.store(memL4)
	c.add(bpf.LoadIndirect{Off: 6, Size: 2})
	c.jump(bpf.JumpBitsSet, 0x1fff, done, ports) // a later fragment

	c.mark(ip6)
	c.add(bpf.LoadScratch{Dst: bpf.RegX, N: memNet})
	c.add(bpf.LoadIndirect{Off: 6, Size: 1})
	c.store(memProto)
	c.add(bpf.TXA{})
	c.add(bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: 40})
	c.store(memL4)
	for range 2 { // extension headers
		skip, fragment, next := c.label(), c.label(), c.label()
		c.add(bpf.LoadScratch{Dst: bpf.RegX, N: memL4})
		c.add(bpf.LoadScratch{Dst: bpf.RegA, N: memProto})
		for _, h := range []uint32{0, 43, 60} { // hop-by-hop, routing, destination
			other := c.label()
			c.jump(bpf.JumpEqual, h, skip, other)
			c.mark(other)
		}
		c.jump(bpf.JumpEqual, 44, fragment, ports)
		c.mark(fragment)
		c.add(bpf.LoadIndirect{Off: 0, Size: 1})
		c.store(memProto)
		c.add(bpf.TXA{})
		c.add(bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: 8})
		c.store(memL4)
		c.add(bpf.LoadIndirect{Off: 2, Size: 2})
		c.jump(bpf.JumpBitsSet, 0xfff8, done, next)
		c.mark(skip)
		c.add(bpf.LoadIndirect{Off: 0, Size: 1})
		c.store(memProto)
		c.add(bpf.LoadIndirect{Off: 1, Size: 1})
		c.add(bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: 1})
		c.add(bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 3})
		c.add(bpf.ALUOpX{Op: bpf.ALUOpAdd})
		c.store(memL4)
		c.mark(next)
	}

	c.mark(ports)
	udp, notTCP := c.label(), c.label()
	c.add(bpf.LoadScratch{Dst: bpf.RegA, N: memProto})
	c.jump(bpf.JumpEqual, protoTCP, udp, notTCP)
	c.mark(notTCP)
	c.jump(bpf.JumpEqual, protoUDP, udp, done)
	c.mark(udp)
	c.add(bpf.LoadScratch{Dst: bpf.RegX, N: memL4})
	c.add(bpf.LoadIndirect{Off: 0, Size: 2})
	c.store(memSrc)
	c.add(bpf.LoadIndirect{Off: 2, Size: 2})
	c.store(memDst)
	c.set(memPorts, 1)
	c.mark(done)
}
