// Package wire joins two interfaces by a bridge that nobody sees: every frame that comes in at one goes out at the other as it is,
// unless a rule of inject/fault says otherwise.
//
// It owns the forwarding, what is counted of it, the capture of both directions, and the notice of an interface that goes down.
// How frames get in and out belongs to inject/port, what happens to them on purpose to inject/fault.
//
// Each direction has a goroutine, which receives from all queues of one interface and sends on those of the other. A frame is
// copied once, from the memory of the one into that of the other, and nothing is allocated for it.
package wire
