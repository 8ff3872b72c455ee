//go:build !linux

package port

import "time"

// Packet is a port over AF_PACKET sockets, which only Linux has.
type Packet struct{}

// OpenPacket is not supported on this system.
func OpenPacket(o Options) (*Packet, error) {
	_, err := findLink(o.Interface)
	return nil, err
}

// Info implements Port.
func (p *Packet) Info() Info { return Info{} }

// Take implements Port.
func (p *Packet) Take([]uint32) int { return 0 }

// Room implements Port.
func (p *Packet) Room(uint32) []byte { return nil }

// Send implements Port.
func (p *Packet) Send([]Out) error { return ErrNotSupported }

// Flush implements Port.
func (p *Packet) Flush() error { return ErrNotSupported }

// Receive implements Port.
func (p *Packet) Receive([]In) (int, error) { return 0, ErrNotSupported }

// Wait implements Port.
func (p *Packet) Wait(time.Duration) error { return ErrNotSupported }

// Stats implements Port.
func (p *Packet) Stats() Stats { return Stats{} }

// Close implements Port.
func (p *Packet) Close() error { return nil }
