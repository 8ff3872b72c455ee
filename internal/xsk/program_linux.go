package xsk

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Program is the loaded XDP program with its maps.
type Program struct {
	options  ProgramOptions
	program  *ebpf.Program
	sockets  *ebpf.Map // queue → socket
	counters *ebpf.Map // Verdict → count, on each CPU
}

// LoadProgram assembles the program and gives it to the kernel.
func LoadProgram(options ProgramOptions) (*Program, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	unlimitMemlock()
	p := &Program{options: options}
	if err := p.load(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// unlimitMemlock makes room for maps and programs, which before Linux 5.11 counted against RLIMIT_MEMLOCK. Where this is
// refused and needed, loading says so.
func unlimitMemlock() {
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
}

func (p *Program) load() (err error) {
	fail := func(op string, err error) error {
		return failure(op, "", err, "CAP_BPF", "CAP_NET_ADMIN")
	}
	if p.sockets, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "sockets", Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(p.options.Queues),
	}); err != nil {
		return fail("create a map of sockets", err)
	}
	if p.counters, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "counters", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: uint32(verdicts),
	}); err != nil {
		return fail("create a map of counters", err)
	}
	spec := &ebpf.ProgramSpec{
		Name: "rocescope", Type: ebpf.XDP, License: "Apache-2.0", AttachType: ebpf.AttachXDP,
		Instructions: assemble(p.options, HaveFrags() == nil, p.sockets.FD(), p.counters.FD()),
	}
	if !p.options.NoFrags && HaveFrags() == nil {
		spec.Flags |= unix.BPF_F_XDP_HAS_FRAGS
	}
	if p.program, err = ebpf.NewProgram(spec); err != nil {
		return fail("load the XDP program", err)
	}
	return nil
}

// Register redirects what comes in on the socket's queue to it, until it is closed.
func (p *Program) Register(s *Socket) error {
	queue := s.info.Queue
	if queue >= p.options.Queues {
		return &Error{Op: "register the socket of", Where: s.options.where(), Kind: ErrQueue, Hint: fmt.Sprintf("the program was made for %d queues", p.options.Queues)}
	}
	if err := p.sockets.Put(uint32(queue), uint32(s.kernel.fd)); err != nil {
		return failure("register the socket of", s.options.where(), err, "CAP_BPF", "CAP_NET_ADMIN")
	}
	return nil
}

// Counters reads what the program has counted.
func (p *Program) Counters() (Counters, error) {
	var sum Counters
	var each []uint64
	for v := range sum {
		if err := p.counters.Lookup(uint32(v), &each); err != nil {
			return sum, &Error{Op: "read the counters of the XDP program", Err: err}
		}
		for _, n := range each {
			sum[v] += n
		}
	}
	return sum, nil
}

// Close lets go of the program. It goes on where it is attached.
func (p *Program) Close() error {
	var errs []error
	if p.program != nil {
		errs = append(errs, p.program.Close())
	}
	if p.sockets != nil {
		errs = append(errs, p.sockets.Close())
	}
	if p.counters != nil {
		errs = append(errs, p.counters.Close())
	}
	return errors.Join(errs...)
}

// Numbers of the kernel's ABI, and of the headers that the program reads.
const (
	ctxData, ctxDataEnd, ctxQueue = 0, 4, 16 // in struct xdp_md

	xdpPass, xdpRedirect = 2, 4

	etherTypeIPv4, etherTypeIPv6    = 0x0800, 0x86DD
	etherTypeRoCE, etherTypePause   = 0x8915, 0x8808
	etherTypeVLAN, etherTypeService = 0x8100, 0x88A8
	protocolTCP, protocolUDP        = 6, 17

	vlanTags         = 2 // how many the program looks behind
	extensionHeaders = 4 // and IPv6 extension headers, from Linux 5.18 on (as for IPv4 options)
	rocePort         = 4791
)

// net16 is a number as a 16-bit load from a frame in network order shows it on this machine.
func net16(v uint16) int32 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return int32(binary.NativeEndian.Uint16(b[:]))
}

// assemble writes the program. Options become code: what was not asked for costs nothing.
//
// Registers: R6 the context, R7 where the current header begins, R8 the end of the frame's first buffer, R9 how far R7 is
// from the frame's beginning, and at last the verdict. Adding a variable to a pointer into the frame takes CAP_PERFMON, which
// we do not want to ask for: behind options and extension headers, which are rare, bytes are therefore loaded by offset.
func assemble(o ProgramOptions, deep bool, sockets, counters int) asm.Instructions {
	const (
		ctx, here, end, offset = asm.R6, asm.R7, asm.R8, asm.R9
		verdict                = asm.R9
		protocol, port         = asm.R3, asm.R4 // port: the destination
		source                 = asm.R5
	)
	var p asm.Instructions
	mark := ""
	op := func(ins asm.Instruction) {
		if mark != "" {
			ins, mark = ins.WithSymbol(mark), ""
		}
		p = append(p, ins)
	}
	// label gives the next instruction a name. Where two labels meet, a jump to the next instruction keeps them apart.
	label := func(name string) {
		if mark != "" {
			op(asm.Ja.Label(name))
		}
		mark = name
	}
	// need goes to short unless n bytes follow here.
	need := func(n int32) {
		op(asm.Mov.Reg(asm.R2, here))
		op(asm.Add.Imm(asm.R2, n))
		op(asm.JGT.Reg(asm.R2, end, "short"))
	}
	// load copies 8 bytes at offset to the stack, or goes to short.
	load := func() {
		op(asm.Mov.Reg(asm.R1, ctx))
		op(asm.Mov.Reg(asm.R2, offset))
		op(asm.Mov.Reg(asm.R3, asm.RFP))
		op(asm.Add.Imm(asm.R3, -8))
		op(asm.Mov.Imm(asm.R4, 8))
		op(asm.FnXdpLoadBytes.Call())
		op(asm.JNE.Imm(asm.R0, 0, "short"))
	}
	say := func(v Verdict, next string) {
		op(asm.Mov.Imm(verdict, int32(v)))
		op(asm.Ja.Label(next))
	}
	// ours goes to next if the protocol in r is one that we look into.
	ours := func(r asm.Register, next string) {
		op(asm.JEq.Imm(r, protocolUDP, next))
		if len(o.TCPPorts) > 0 {
			op(asm.JEq.Imm(r, protocolTCP, next))
		}
	}

	op(asm.Mov.Reg(ctx, asm.R1))
	if !o.All {
		op(asm.LoadMem(here, ctx, ctxData, asm.Word))
		op(asm.LoadMem(end, ctx, ctxDataEnd, asm.Word))

		// Ethernet. With each tag, here moves on by its four bytes, so that the EtherType is always 12 bytes on.
		need(14)
		op(asm.Mov.Imm(offset, 14))
		op(asm.LoadMem(protocol, here, 12, asm.Half))
		for i := range vlanTags {
			tagged, l3 := fmt.Sprintf("tagged%d", i), fmt.Sprintf("untagged%d", i)
			op(asm.JEq.Imm(protocol, net16(etherTypeVLAN), tagged))
			op(asm.JNE.Imm(protocol, net16(etherTypeService), l3))
			label(tagged)
			op(asm.Add.Imm(here, 4))
			op(asm.Add.Imm(offset, 4))
			need(14)
			op(asm.LoadMem(protocol, here, 12, asm.Half))
			label(l3)
		}
		op(asm.Add.Imm(here, 14))
		op(asm.JEq.Imm(protocol, net16(etherTypeIPv4), "ipv4"))
		op(asm.JEq.Imm(protocol, net16(etherTypeIPv6), "ipv6"))
		op(asm.JEq.Imm(protocol, net16(etherTypeRoCE), "roce1"))
		if o.Pause {
			op(asm.JEq.Imm(protocol, net16(etherTypePause), "pause"))
		}
		label("other")
		say(PassedOther, "pass")

		label("roce1")
		say(RedirectedRoCEv1, "redirect")
		if o.Pause {
			label("pause")
			say(RedirectedPause, "redirect")
		}
		label("short")
		say(PassedShort, "pass")
		label("fragment")
		say(PassedFragment, "pass")

		label("ipv4")
		need(20)
		op(asm.LoadMem(protocol, here, 9, asm.Byte))
		ours(protocol, "ipv4ours")
		op(asm.Ja.Label("other"))
		label("ipv4ours")
		op(asm.LoadMem(asm.R1, here, 6, asm.Half))
		op(asm.And.Imm(asm.R1, net16(0x1FFF))) // fragment offset
		op(asm.JNE.Imm(asm.R1, 0, "fragment"))
		op(asm.LoadMem(asm.R1, here, 0, asm.Byte))
		op(asm.And.Imm(asm.R1, 0x0F)) // header length in words
		op(asm.Add.Imm(here, 20))
		op(asm.JEq.Imm(asm.R1, 5, "l4"))
		op(asm.JLT.Imm(asm.R1, 5, "short"))
		if deep {
			op(asm.LSh.Imm(asm.R1, 2))
			op(asm.Add.Reg(offset, asm.R1))
			op(asm.Mov.Reg(here, protocol)) // from here on, here is no pointer any more but the protocol
			op(asm.Ja.Label("deepports"))
		} else {
			op(asm.Ja.Label("short"))
		}

		label("ipv6")
		need(40)
		op(asm.LoadMem(protocol, here, 6, asm.Byte)) // next header
		op(asm.Add.Imm(here, 40))
		ours(protocol, "l4")
		if deep {
			op(asm.Add.Imm(offset, 40))
			op(asm.Mov.Reg(here, protocol))
			for i := range extensionHeaders {
				skip, next := fmt.Sprintf("skip%d", i), fmt.Sprintf("next%d", i)
				op(asm.JEq.Imm(here, 0, skip))     // hop-by-hop options
				op(asm.JEq.Imm(here, 43, skip))    // routing
				op(asm.JEq.Imm(here, 60, skip))    // destination options
				op(asm.JNE.Imm(here, 44, "other")) // fragment
				load()
				op(asm.LoadMem(here, asm.RFP, -8, asm.Byte)) // next header
				op(asm.Add.Imm(offset, 8))
				op(asm.LoadMem(asm.R1, asm.RFP, -8+2, asm.Half))
				op(asm.And.Imm(asm.R1, net16(0xFFF8))) // fragment offset
				op(asm.JEq.Imm(asm.R1, 0, next))
				ours(here, "fragment")
				op(asm.Ja.Label("other"))
				label(skip)
				load()
				op(asm.LoadMem(here, asm.RFP, -8, asm.Byte))
				op(asm.LoadMem(asm.R1, asm.RFP, -8+1, asm.Byte)) // length in 8 bytes, without the first 8
				op(asm.Add.Imm(asm.R1, 1))
				op(asm.LSh.Imm(asm.R1, 3))
				op(asm.Add.Reg(offset, asm.R1))
				label(next)
				ours(here, "deepports")
			}
			op(asm.Ja.Label("short")) // more extension headers than we look behind

			label("deepports")
			load()
			op(asm.Mov.Reg(protocol, here))
			op(asm.LoadMem(port, asm.RFP, -8+2, asm.Half))
			op(asm.LoadMem(source, asm.RFP, -8, asm.Half))
			op(asm.Ja.Label("ports"))
		} else {
			for _, extension := range []int32{0, 43, 60, 44} {
				op(asm.JEq.Imm(protocol, extension, "short"))
			}
			op(asm.Ja.Label("other"))
		}

		label("l4")
		need(8) // all of UDP; of TCP the ports and more
		op(asm.LoadMem(port, here, 2, asm.Half))
		op(asm.LoadMem(source, here, 0, asm.Half))
		label("ports")
		if len(o.TCPPorts) > 0 {
			op(asm.JEq.Imm(protocol, protocolTCP, "tcp"))
		}
		op(asm.JNE.Imm(port, net16(rocePort), "other"))
		say(RedirectedRoCEv2, "redirect")
		if len(o.TCPPorts) > 0 {
			label("tcp")
			for _, n := range o.TCPPorts {
				op(asm.JEq.Imm(port, net16(n), "tcpours"))
				op(asm.JEq.Imm(source, net16(n), "tcpours"))
			}
			op(asm.Ja.Label("other"))
			label("tcpours")
			say(RedirectedTCP, "redirect")
		}
	} else {
		op(asm.Mov.Imm(verdict, int32(RedirectedAny)))
	}

	label("redirect")
	op(asm.LoadMapPtr(asm.R1, sockets))
	op(asm.LoadMem(asm.R2, ctx, ctxQueue, asm.Word))
	op(asm.Mov.Imm(asm.R3, xdpPass)) // where the queue has no socket
	op(asm.FnRedirectMap.Call())
	op(asm.Mov.Reg(ctx, asm.R0)) // what to return
	op(asm.JEq.Imm(asm.R0, xdpRedirect, "count"))
	say(PassedNoSocket, "count")

	if !o.All {
		label("pass")
		op(asm.Mov.Imm(ctx, xdpPass))
	}
	label("count")
	op(asm.StoreMem(asm.RFP, -4, verdict, asm.Word))
	op(asm.LoadMapPtr(asm.R1, counters))
	op(asm.Mov.Reg(asm.R2, asm.RFP))
	op(asm.Add.Imm(asm.R2, -4))
	op(asm.FnMapLookupElem.Call())
	op(asm.JEq.Imm(asm.R0, 0, "return"))
	op(asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord)) // the CPU is ours alone: no atomic add
	op(asm.Add.Imm(asm.R1, 1))
	op(asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord))
	label("return")
	op(asm.Mov.Reg(asm.R0, ctx))
	op(asm.Return())
	return p
}
