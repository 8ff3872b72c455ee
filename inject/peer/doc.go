// Package peer is a host on the wire: a port, a software RNIC on it, communication management, and answers to who asks for the
// host's addresses, run by one thread and one clock. It dials, and it lets others dial, in every way that inject/connect knows.
//
// It owns that thread (Host), the ways from addresses to MACs, and the queue pairs' way from RESET to RTS and back by what a
// conversation tells (Conn, Session). What goes over the connections belongs to inject/load and to others, who make the queue
// pairs (Maker); it prints nothing.
//
// # One thread
//
// The device, CM, the answers and the users' own work (Worker) are all done by one goroutine on one locked thread. Nobody waits
// for anybody there, so that what belongs to one host needs no lock. Other goroutines have things done there by Do. An interface
// with several receive queues is served by the same thread: which queue a packet arrives in is the interface's choice, and a
// queue pair lives in one place.
package peer
