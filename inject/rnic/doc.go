// Package rnic is a software RNIC: queue pairs that converse, over any port, with real ones. It is requester for another device's
// responder, responder for its requester, and the stand-in for a device where there is none.
//
// It owns the verbs' objects, their state machine, and the RC, UC and UD transports. How two queue pairs learn of each other
// belongs to inject/connect, how frames get out and in to inject/port, what bytes mean to dissect. It judges nothing that it sees:
// flows does, with a state machine of its own.
//
// # The API is that of verbs
//
//	d, err := rnic.Open(p, rnic.Options{MAC: mac, Addrs: []netip.Addr{addr}})
//	pd := d.AllocPD()
//	mr, err := pd.RegMR(make([]byte, 1<<20), rnic.LocalWrite|rnic.RemoteWrite)
//	cq, err := d.CreateCQ(256)
//	qp, err := pd.CreateQP(rnic.QPInit{Type: dissect.RC, SendCQ: cq, RecvCQ: cq, Cap: rnic.QPCap{MaxSendWR: 64, MaxRecvWR: 64}})
//	err = qp.Modify(rnic.Attr{State: rnic.INIT, Access: rnic.RemoteWrite}, rnic.AttrState|rnic.AttrAccess|rnic.AttrPKeyIndex|rnic.AttrPort)
//	… RTR, RTS …
//	err = qp.PostSend(rnic.SendWR{ID: 1, Op: rnic.OpWrite, SGL: []rnic.SGE{mr.SGE(0, 4096)}, RemoteVA: va, RKey: rkey, Flags: rnic.Signaled})
//	n := cq.Poll(completions)
//
// # One thread for each queue
//
// A device is driven by one goroutine, which calls Step again and again, or Run: receive a batch, process it, see to the timers,
// send a batch. All protocol is done there. Verbs may be called by any goroutine. Posting and polling go through rings as in
// hardware, and tell the device of new work by a mailbox that it empties once per batch; all else waits for the device's lock,
// which it takes once per batch. Handlers and event callbacks are called on the device's goroutine without that lock, so that they may
// call any verb.
//
// An interface with several receive queues has a device for each (OpenQueues), with an AF_XDP socket of its own for both ways, and a
// goroutine of its own. Together they are one RNIC: addresses, memory regions and the numbers of queue pairs are common, and read
// without locks. A queue pair, its state and its timers belong to one device. Which queue a packet comes in is the card's choice, by a
// hash that knows nothing of queue pairs: what is another device's goes to it through a ring, which is a copy, and no lock. Atomics of
// several devices on one word are carried out one after the other; other accesses to the same memory race, as those of hardware do.
//
// Time comes from Options.Clock. A test that drives the clock asks Next when something is due.
//
// # What it costs
//
// The packet path allocates nothing. An idle queue pair costs no time: those with something to send stand in a list that is served
// round robin, timers in a heap where a queue pair has one place, which is moved only when it is due. Memory is taken when objects
// are created, and does not grow: a queue pair takes 1.1 KiB, 88 bytes for each send work request and 9 for each receive, 16 for each
// element of their lists, 56 for each READ that it may have to answer, and its inline room; QP.Memory says it to the byte.
package rnic
