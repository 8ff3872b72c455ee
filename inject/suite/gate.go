package suite

import (
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
)

// gate is the case's rules around our port, as long as they are on: the probes behind the case are to meet none.
type gate struct {
	*fault.Port
	plain port.Port
	off   bool // the device's thread looks
}

// Send implements port.Port.
func (g *gate) Send(frames []port.Out) error {
	if g.off {
		return g.plain.Send(frames)
	}
	return g.Port.Send(frames)
}

// Receive implements port.Port.
func (g *gate) Receive(in []port.In) (int, error) {
	if g.off {
		return g.plain.Receive(in)
	}
	return g.Port.Receive(in)
}
