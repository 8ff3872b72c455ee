// Package peer is a host on the wire: a port, a software RNIC on it, communication management, and answers to who asks for the
// host's addresses, run by one clock and a thread for each of the interface's queues, or one for all. It dials, and it lets others
// dial, in every way that inject/connect knows.
//
// It owns these threads (Host, Thread), the ways from addresses to MACs, and the queue pairs' way from RESET to RTS and back by what a
// conversation tells (Conn, Session). What goes over the connections belongs to inject/load and to others, who make the queue
// pairs (Maker); it prints nothing.
//
// # Threads
//
// Each receive queue of the interface may have a thread of its own (Thread): its device, the queue pairs that live there, and its users'
// work (Worker). Nobody waits for anybody there, so that what belongs to one thread needs no lock. The first one also has CM, the answers
// to others' questions, and the making of queue pairs. With fewer threads than queues a thread serves several of them in turn. Other
// goroutines have things done on a thread by its Do.
package peer
