package xsk

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
)

// judge is the program, written once more in Go and without any cleverness.
func judge(o ProgramOptions, b []byte) Verdict {
	if o.All {
		return RedirectedAny
	}
	u16 := func(at int) int {
		if at+2 > len(b) {
			return -1
		}
		return int(binary.BigEndian.Uint16(b[at:]))
	}
	at := 12
	for i := 0; i < vlanTags && (u16(at) == etherTypeVLAN || u16(at) == etherTypeService); i++ {
		at += 4
	}
	kind := u16(at)
	at += 2
	if at > len(b) {
		return PassedShort
	}
	ours := func(protocol byte) bool {
		return protocol == protocolUDP || protocol == protocolTCP && len(o.TCPPorts) > 0
	}
	var protocol byte
	switch {
	case kind == etherTypeRoCE:
		return RedirectedRoCEv1
	case kind == etherTypePause && o.Pause:
		return RedirectedPause
	case kind == etherTypeIPv4:
		if at+20 > len(b) {
			return PassedShort
		}
		protocol = b[at+9]
		words := int(b[at] & 15)
		switch {
		case !ours(protocol):
			return PassedOther
		case u16(at+6)&0x1FFF != 0:
			return PassedFragment
		case words < 5:
			return PassedShort
		}
		at += words * 4
	case kind == etherTypeIPv6:
		if at+40 > len(b) {
			return PassedShort
		}
		protocol = b[at+6]
		at += 40
		for i := 0; !ours(protocol); i++ {
			switch {
			case i == extensionHeaders:
				return PassedShort
			case !slices.Contains([]byte{0, 43, 44, 60}, protocol):
				return PassedOther
			case at+8 > len(b):
				return PassedShort
			case protocol == 44:
				later := u16(at+2)&0xFFF8 != 0
				if protocol = b[at]; later && ours(protocol) {
					return PassedFragment
				} else if later {
					return PassedOther
				}
				at += 8
			default:
				protocol = b[at]
				at += (int(b[at+1]) + 1) * 8
			}
		}
	default:
		return PassedOther
	}
	if at+8 > len(b) {
		return PassedShort
	}
	if protocol == protocolTCP {
		for _, port := range o.TCPPorts {
			if u16(at) == int(port) || u16(at+2) == int(port) {
				return RedirectedTCP
			}
		}
		return PassedOther
	}
	if u16(at+2) == rocePort {
		return RedirectedRoCEv2
	}
	return PassedOther
}

// TestProgramAgainstGo runs the program on frames of all shapes, whole, cut off and damaged, without any interface.
func TestProgramAgainstGo(t *testing.T) {
	newWire(t, 1500, 1)
	s := openSocket(t, Options{Interface: right, RX: 64})
	rng := rand.New(rand.NewPCG(5, 6))
	pick := func(n ...int) int { return n[rng.IntN(len(n))] }
	var seen [verdicts]int
	for _, o := range []ProgramOptions{{}, {Pause: true}, {TCPPorts: []uint16{18515, 4420}}, {All: true}} {
		p, err := LoadProgram(o)
		if err != nil {
			t.Skip(err)
		}
		defer p.Close()
		if err := p.Register(s); err != nil {
			t.Fatal(err)
		}
		for range 3000 {
			f := frameOptions{
				ipv6: rng.IntN(2) == 0, length: 128, port: uint16(pick(4791, 4791, 4420, 53)), source: uint16(pick(18515, 49152)),
				protocol: byte(pick(17, 17, 17, 6, 6, 1, 44)),
			}
			for range pick(0, 0, 0, 1, 2, 3) {
				f.vlan = append(f.vlan, uint16(pick(0x8100, 0x88A8)))
			}
			if rng.IntN(8) == 0 {
				f.etherType = uint16(pick(0x8915, 0x8808, 0x0806, 0x88CC))
			}
			if rng.IntN(3) == 0 {
				f.options, f.extension = pick(8, 16, 24, 40), byte(pick(0, 43, 60, 44))
			}
			if rng.IntN(8) == 0 {
				f.fragment = uint16(rng.IntN(1 << 13))
			}
			frame := f.build(nil)
			for range pick(0, 0, 0, 1, 3) {
				frame[12+rng.IntN(64)] = byte(rng.Uint32())
			}
			if rng.IntN(4) == 0 {
				frame = frame[:14+rng.IntN(len(frame)-14)]
			}
			want := judge(o, frame)
			seen[want]++
			action := uint32(xdpPass)
			if want < PassedOther {
				action = xdpRedirect // which stays without consequence here
			}
			before := counters(t, p)
			ret, err := p.program.Run(&ebpf.RunOptions{Data: frame})
			if err != nil {
				t.Fatalf("%d bytes: %v", len(frame), err)
			}
			after := counters(t, p)
			got := Verdict(-1)
			for v := range after {
				if after[v] == before[v]+1 {
					got = Verdict(v)
				}
			}
			if got != want || ret != action {
				t.Fatalf("%+v, %d bytes: %v (returned %d), want %v\n%x", o, len(frame), got, ret, want, frame)
			}
		}
	}
	t.Logf("by verdict: %v", seen)
	for v, n := range seen {
		if n == 0 && Verdict(v) != PassedNoSocket {
			t.Errorf("no frame was %v", Verdict(v))
		}
	}
}

// TestProgramVariants loads what the options and older kernels can make of the program: the verifier must like all of it.
func TestProgramVariants(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading programs needs root")
	}
	many := make([]uint16, MaxTCPPorts)
	for i := range many {
		many[i] = uint16(1000 + i)
	}
	p, err := LoadProgram(ProgramOptions{Queues: 4})
	if err != nil {
		t.Skip(err)
	}
	defer p.Close()
	for _, o := range []ProgramOptions{{}, {Pause: true}, {TCPPorts: many}, {TCPPorts: many, Pause: true}, {All: true}} {
		for _, deep := range []bool{true, false} {
			program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
				Type: ebpf.XDP, AttachType: ebpf.AttachXDP, License: "Apache-2.0", Instructions: assemble(o, deep, p.sockets.FD(), p.counters.FD()),
			})
			if err != nil {
				t.Errorf("%+v, deep %v: %v", o, deep, err)
				continue
			}
			program.Close()
		}
	}
	if _, err := LoadProgram(ProgramOptions{TCPPorts: append(many, 1)}); err == nil {
		t.Error("more ports than the program takes")
	}
	for v := range verdicts {
		if verdictNames[v] == "" {
			t.Errorf("verdict %d has no name", v)
		}
	}
}
