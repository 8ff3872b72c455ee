package replay

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
)

// frames is a source of frames in memory.
type frames [][]byte

func (f *frames) ReadBatch(dst []captures.Frame) (int, error) {
	if len(*f) == 0 {
		return 0, io.EOF
	}
	n := min(len(dst), len(*f))
	for i, b := range (*f)[:n] {
		dst[i] = captures.Frame{Data: b, WireLen: len(b), Link: dissect.LinkEthernet, HasTime: true, Time: int64(i)}
	}
	*f = (*f)[n:]
	return n, nil
}

func (f *frames) Interfaces() []captures.Interface { return nil }
func (f *frames) Close() error                     { return nil }

// asked crafts a request of QP 0x11.
func asked(t *testing.T, op dissect.Opcode, psn dissect.PSN, va uint64, payload int) []byte {
	t.Helper()
	o := dissect.Outer{Src: netip.AddrFrom4([4]byte{10, 0, 0, 1}), Dst: netip.AddrFrom4([4]byte{10, 0, 0, 2}), SrcPort: 0xC000}
	b := o.AppendTo(nil)
	at := len(b)
	b = dissect.AppendTransport(b, op)
	h := b[at:]
	dissect.BTH(h).SetDestQP(0x11)
	dissect.BTH(h).SetPSN(psn)
	if r := dissect.RETH(op.Info().View(h, dissect.LayerRETH)); r != nil {
		r.SetVA(va)
		r.SetRKey(7)
		r.SetDMALen(uint32(payload))
	}
	if a := dissect.AtomicETH(op.Info().View(h, dissect.LayerAtomicETH)); a != nil {
		a.SetVA(va)
		a.SetRKey(7)
	}
	var c dissect.Crafter
	b, err := c.Seal(&o, append(b, make([]byte, payload)...))
	must(t, err)
	return b
}

// What no responder can be asked for is refused before anything is sent.
func TestReadRefusesNonsense(t *testing.T) {
	damaged := asked(t, dissect.OpRCWriteOnly, 5, 0x1000, 256)
	damaged[len(damaged)-1] ^= 1
	if _, err := Read(&frames{damaged}, 0); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "ICRC") {
		t.Errorf("requests with a wrong ICRC only: %v", err)
	}
	c, err := Read(&frames{asked(t, dissect.OpRCWriteOnly, 5, 0x1000, 256), asked(t, dissect.OpRCFetchAdd, 6, ^uint64(7), 0)}, 0)
	must(t, err)
	if _, err = c.Regions(); err == nil || !strings.HasPrefix(err.Error(), "frame 2:") {
		t.Errorf("an atomic that ends beyond the last address: %v", err)
	}
}

// A packet that ends within its headers is none that anybody was asked by.
func TestReadPassesOverHeadersThatAreNotThere(t *testing.T) {
	short := reopcode(asked(t, dissect.OpRCSendOnly, 6, 0, 0), dissect.OpRCFetchAdd)
	c, err := Read(&frames{asked(t, dissect.OpRCWriteOnly, 5, 0x1000, 256), short, asked(t, dissect.OpRCFetchAdd, 6, 0x1008, 0)}, 0)
	must(t, err)
	if len(c.Packets) != 2 || len(c.Fresh) != 2 || c.Packets[c.Fresh[1]].Number != 3 {
		t.Errorf("%d packets, fresh: %v", len(c.Packets), c.Fresh)
	}
	regions, err := c.Regions()
	must(t, err)
	if len(regions) != 1 || regions[0].VA != 0x1000 || len(regions[0].After) != 256 {
		t.Errorf("%+v", regions)
	}
}

// reopcode makes a packet one of another opcode, with the headers and the payload that it had, and a right ICRC.
func reopcode(frame []byte, op dissect.Opcode) []byte {
	var d dissect.Decoder
	var p dissect.Packet
	d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
	ip, at, end := p.Offset(dissect.LayerIPv4), p.Offset(dissect.LayerBTH), p.Offset(dissect.LayerICRC)
	dissect.BTH(frame[at:]).SetOpcode(op)
	var icrc dissect.ICRC
	binary.LittleEndian.PutUint32(frame[end:], icrc.Sum(frame[ip:end], dissect.LayerIPv4, at-ip))
	return frame
}
