package rnic

import "github.com/rocescope/rocescope/dissect"

// behaviour is what a device does at the places where one that misbehaves does something else. All devices that do not share one.
type behaviour struct {
	checks       [numChecks]check
	destinations [len(destinations)]func(a *arrival)
	stages       [done]action
	verdicts     [len(verdicts)]func(q *QP, p *dissect.Packet)
	retry        func(q *QP)

	started func(q *QP)            // in RTR, and again in RTS; nil = nothing more
	spoil   func(frame []byte) int // changes a finished frame of a queue pair, and returns its new length; nil = does not
}

var right = behaviour{checks: checks, destinations: destinations, stages: stages, verdicts: verdicts, retry: (*QP).retry}

// misbehave makes the device do wrong what the names say.
func (d *Device) misbehave(names []string) error {
	if len(names) == 0 {
		return nil
	}
	do := right
	for _, name := range names {
		m, err := FindMisbehaviour(name)
		if err != nil {
			return err
		}
		m.apply(d, &do)
	}
	d.do = &do
	return nil
}

// around puts f around a stage: it is told what was there before.
func (b *behaviour) around(s stage, f func(q *QP, a *arrival, before action) stage) {
	before := b.stages[s]
	b.stages[s] = func(q *QP, a *arrival) stage { return f(q, a, before) }
}

// first has f look at each packet of a role before it goes where it belongs; it goes there unless f is false.
func (b *behaviour) first(r dissect.Role, f func(a *arrival) bool) {
	before := b.destinations[r]
	b.destinations[r] = func(a *arrival) {
		if f(a) {
			before(a)
		}
	}
}

// spoiling has f change each frame that a queue pair sends. The frame gets its checksum and ICRC anew where f says so.
func (b *behaviour) spoiling(f func(frame []byte, bth dissect.BTH) (n int, reseal bool)) {
	before := b.spoil
	var craft dissect.Crafter
	b.spoil = func(frame []byte) int {
		n, reseal := f(frame, dissect.BTH(frame[bthOf(frame):]))
		if reseal {
			_ = craft.Reseal(dissect.LinkEthernet, frame[:n]) // its lengths are right
		}
		if before != nil {
			return before(frame[:n])
		}
		return n
	}
}

// networkOf is where the IP header of a frame begins that a queue pair sends, and which it is.
func networkOf(frame []byte) (at int, l dissect.Layer) {
	at = 12
	if frame[at] == 0x81 {
		at += 4
	}
	if frame[at] == 0x86 {
		return at + 2, dissect.LayerIPv6
	}
	return at + 2, dissect.LayerIPv4
}

// bthOf is where its BTH begins.
func bthOf(frame []byte) int {
	at, l := networkOf(frame)
	return at + l.Size() + dissect.LayerUDP.Size()
}

// pass and never are checks that every packet passes, and none.
func pass(*arrival) bool  { return true }
func never(*arrival) bool { return false }

// hang makes the device deaf to RoCE for good: nothing but a reset of it, which a software device has not, would help.
func (d *Device) hang() {
	do := *d.do
	do.checks[linkCheck].pass = never
	d.do = &do
}

// mute makes the device deaf to everything.
func (d *Device) mute() {
	d.hang()
	d.onOther = nil
}
