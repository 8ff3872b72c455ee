//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// openLoop sends packets without a protocol from one port, and takes them at the other.
type openLoop struct {
	from, to port.Port
	head     []byte // to the end of the BTH
	network  int    // where the IP header begins in it
	mtu      int
	memory   [2][]byte
	slots    [128]uint32
	out      [128]port.Out
	in       [128]port.In
	icrc     dissect.ICRC
	dec      dissect.Decoder
	packet   dissect.Packet
}

func newOpenLoop(from, to port.Port, mtu int) (*openLoop, error) {
	o := dissect.Outer{
		DstMAC: [6]byte{2, 0, 0, 0, 0, 2}, SrcMAC: [6]byte{2, 0, 0, 0, 0, 1},
		Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2"), SrcPort: 49152,
	}
	frame := dissect.AppendTransport(o.AppendTo(nil), dissect.OpRCWriteMiddle)
	head := len(frame)
	var c dissect.Crafter
	frame, err := c.Seal(&o, append(frame, make([]byte, mtu)...))
	if err != nil {
		return nil, err
	}
	l := &openLoop{from: from, to: to, head: frame[:head], network: 14, mtu: mtu}
	for i := range l.memory {
		l.memory[i] = make([]byte, memorySize)
	}
	return l, nil
}

// errPayload: what the receiver of the comparison found is no packet of its sender.
var errPayload = errors.New("a packet arrived that is not as it was sent")

// carry sends so many packets and returns when all have been received.
func (l *openLoop) carry(packets int) error {
	sent, got := 0, 0
	for idle := 0; got < packets; {
		n := l.from.Take(l.slots[:min(len(l.slots), packets-sent)])
		for i, slot := range l.slots[:n] {
			room := l.from.Room(slot)
			copy(room, l.head)
			bth := dissect.BTH(room[len(l.head)-12 : len(l.head)])
			bth.SetPSN(dissect.PSN(sent+i) & 0xFFFFFF)
			end := len(l.head) + l.mtu
			copy(room[len(l.head):end], l.memory[0][(sent+i)*l.mtu%memorySize:][:l.mtu])
			crc := l.icrc.Sum(room[l.network:end], dissect.LayerIPv4, len(l.head)-12-l.network)
			binary.LittleEndian.PutUint32(room[end:], crc)
			l.out[i] = port.Out{Slot: slot, Len: int32(end + dissect.ICRCSize)}
		}
		if n > 0 {
			if err := l.from.Send(l.out[:n]); err != nil {
				return err
			}
		}
		if err := l.from.Flush(); err != nil {
			return err
		}
		sent += n
		m, err := l.to.Receive(l.in[:])
		if err != nil {
			return err
		}
		for _, f := range l.in[:m] {
			l.dec.Decode(dissect.LinkEthernet, f.Data, len(f.Data), &l.packet)
			if l.icrc.Verify(&l.packet, f.Data) != dissect.ICRCValid {
				return errPayload
			}
			copy(l.memory[1][got*l.mtu%memorySize:][:l.mtu], f.Data[len(l.head):])
			got++
		}
		if idle++; n+m > 0 {
			idle = 0
		}
		if idle > 1_000_000 {
			return fmt.Errorf("%d of %d packets arrived, and no more come", got, packets)
		}
	}
	return nil
}

// pingPong sends frames of one length there and of another back, and returns the time of each round trip.
func (l *openLoop) pingPong(there, back, rounds int) ([]float64, error) {
	times := make([]float64, rounds)
	for i := range times {
		began := time.Now()
		if err := l.swap(there, back, 1); err != nil {
			return nil, err
		}
		times[i] = float64(time.Since(began).Nanoseconds())
	}
	return times, nil
}

// swap sends n frames there, 128 at most, and then as many back.
func (l *openLoop) swap(there, back, n int) error {
	if err := l.pass(l.from, l.to, there, n); err != nil {
		return err
	}
	return l.pass(l.to, l.from, back, n)
}

// pass sends n frames, and waits for them awake.
func (l *openLoop) pass(from, to port.Port, length, n int) error {
	for have := 0; have < n; {
		got := from.Take(l.slots[have:n])
		if have += got; got == 0 {
			if err := from.Flush(); err != nil {
				return err
			}
		}
	}
	for i, slot := range l.slots[:n] {
		copy(from.Room(slot), l.head)
		l.out[i] = port.Out{Slot: slot, Len: int32(length)}
	}
	if err := from.Send(l.out[:n]); err != nil {
		return err
	}
	if err := from.Flush(); err != nil {
		return err
	}
	for n > 0 {
		got, err := to.Receive(l.in[:n])
		if err != nil {
			return err
		}
		n -= got
	}
	return nil
}
