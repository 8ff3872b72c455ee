package port

import "sync/atomic"

// counts is what every port counts. Whoever sends adds to the first half and whoever receives to the second, each a batch at a
// time; anybody may read.
type counts struct {
	handed, handedBytes, sendLost atomic.Uint64
	_                             [64]byte // the halves are written by different cores
	received, recvBytes, recvLost atomic.Uint64
}

// hand counts frames that Send was given.
func (c *counts) hand(frames int, bytes uint64) {
	c.handed.Add(uint64(frames))
	c.handedBytes.Add(bytes)
}

// lengths is how long frames are together.
func lengths(frames []Out) (bytes uint64) {
	for i := range frames {
		bytes += uint64(frames[i].Len)
	}
	return bytes
}

// receive counts frames that Receive gives out.
func (c *counts) receive(in []In) {
	bytes := uint64(0)
	for i := range in {
		bytes += uint64(len(in[i].Data))
	}
	c.received.Add(uint64(len(in)))
	c.recvBytes.Add(bytes)
}

// stats leaves Outstanding to the port.
func (c *counts) stats() Stats {
	lost := c.sendLost.Load() // before handed, so that it is never more
	return Stats{
		Sent: c.handed.Load() - lost, SentBytes: c.handedBytes.Load(), SendLost: lost,
		Received: c.received.Load(), RecvBytes: c.recvBytes.Load(), RecvLost: c.recvLost.Load(),
	}
}
