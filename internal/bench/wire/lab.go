//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/dissect"
)

// near is where frames are sent, and far where they arrive.
const near, far = "near", "far"

// pair makes the two interfaces anew, both with one queue.
func pair(mtu int) (closer func(), err error) {
	// The kernel's own IPv6 traffic would be counted as well.
	err = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0o644)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = near, mtu
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerMTU = far, uint32(mtu)
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("make a pair of virtual interfaces: %w", err)
	}
	closer = func() { _ = netlink.LinkDel(veth) }
	for _, side := range []struct{ name, address string }{{near, "10.9.0.1/24"}, {far, "10.9.0.2/24"}} {
		l, err := netlink.LinkByName(side.name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			closer()
			return nil, fmt.Errorf("set %s up: %w", side.name, err)
		}
	}
	return closer, nil
}

// sink drops and counts every frame in the driver of the far end: what a receiver costs at least.
type sink struct {
	counter *ebpf.Map
	program *ebpf.Program
	link    link.Link
}

func newSink() (*sink, error) {
	s := &sink{}
	var err error
	if s.counter, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1}); err != nil {
		return nil, err
	}
	const xdpDrop = 1
	s.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, AttachType: ebpf.AttachXDP, License: "Apache-2.0", Flags: unix.BPF_F_XDP_HAS_FRAGS,
		Instructions: asm.Instructions{
			asm.StoreImm(asm.RFP, -4, 0, asm.Word),
			asm.LoadMapPtr(asm.R1, s.counter.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "drop"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
			asm.Add.Imm(asm.R1, 1),
			asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol("drop"),
			asm.Return(),
		},
	})
	if err != nil {
		s.close()
		return nil, err
	}
	l, err := netlink.LinkByName(far)
	if err == nil {
		s.link, err = link.AttachXDP(link.XDPOptions{Program: s.program, Interface: l.Attrs().Index, Flags: link.XDPDriverMode})
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("attach an XDP program to %s: %w", far, err)
	}
	return s, nil
}

func (s *sink) arrived() (sum uint64, err error) {
	var each []uint64
	err = s.counter.Lookup(uint32(0), &each)
	for _, n := range each {
		sum += n
	}
	return sum, err
}

func (s *sink) close() {
	var errs []error
	if s.link != nil {
		errs = append(errs, s.link.Close())
	}
	if s.program != nil {
		errs = append(errs, s.program.Close())
	}
	errs = append(errs, s.counter.Close())
	_ = errors.Join(errs...) // they end with the process at the latest
}

// newFrame is a request of one packet.
func newFrame(op dissect.Opcode, payload, q int) []byte {
	o := dissect.Outer{
		DstMAC: [6]byte{2, 0, 0, 0, 0, 2}, SrcMAC: [6]byte{2, 0, 0, 0, 0, 1},
		Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2"), SrcPort: uint16(49152 + q),
	}
	b := o.AppendTo(nil)
	at := len(b)
	b = dissect.AppendTransport(b, op)
	dissect.BTH(b[at:]).SetDestQP(uint32(0x100 + q))
	if h := dissect.RETH(op.Info().View(b[at:], dissect.LayerRETH)); h != nil {
		h.SetRKey(uint32(0x1000 + q))
		h.SetDMALen(uint32(payload))
	}
	for i := range payload {
		b = append(b, byte(i))
	}
	var c dissect.Crafter
	b, err := c.Seal(&o, b)
	if err != nil {
		panic(err) // only of frames that are longer than IP can say
	}
	return b
}
