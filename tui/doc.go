// Package tui is the screen: a capture, being read or being taken, as a person
// browses it, from the whole down to the bits of one packet.
//
// A Session reads the source once, on goroutines of its own: it tracks, keeps an
// index of packets, and publishes snapshots a few times a second. The screen looks
// at the last of them; nothing that packets have to pass ever waits for it.
//
// The screen is one Bubble Tea model (app.go, the only file beside keys.go that
// knows Bubble Tea). Everything behind it is plain: the screen is a stack of
// views, a view is made of panels, panels are structs with imperative methods
// that draw themselves into a rectangle. None of them waits: whatever reads files or
// writes them is an effect, a function that app.go runs beside the event loop and
// whose result comes back as an event.
//
// What is drawn, with which characters and colours, belongs to tui/draw, what packets
// mean to flows. Generators are steered through Controls.
package tui
