// Package load is traffic over connections: messages of one kind, as many or for as long as asked, timed, counted and, on request,
// checked byte by byte (Requester), and the other side of it (Responder).
//
// It owns what is posted when, the pattern that data is checked by, and the results. Connections belong to inject/peer, the protocol
// to inject/rnic; it prints nothing.
package load
