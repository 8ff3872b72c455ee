package rnic

import "encoding/binary"

// With many queue pairs, most of a packet's time is waiting for memory. These passes read from the frames and queue pairs of a batch
// before they are worked on, so that the processor fetches many of them at a time instead of one behind the other: of 10 000 queue
// pairs a message costs 1 µs (both sides together, in memory), without them nearly twice that (BenchmarkQPs).

// touchFrom is how many queue pairs are more than a processor's cache holds.
const touchFrom = 512

// touch reads from each cache line of the queue pair that packets need, and returns something of it, lest the compiler leave it out.
func (q *QP) touch() uint32 {
	return q.qpn + q.sq.mask + uint32(len(q.sq.sges)) + uint32(q.req.una) + uint32(q.req.deadline) + uint32(q.peer.head[44]) +
		uint32(q.peer.sum) + uint32(q.rsp.recv.id) + q.rsp.left + uint32(q.rsp.nak) + uint32(q.rate.next)
}

// touchQueue reads from the oldest and the next send work request, if they are posted.
func (q *QP) touchQueue() (sum uint32) {
	tail := q.sq.tail.Load()
	if q.req.head != tail {
		sum += q.sq.at(q.req.head).length
	}
	if q.req.cur != tail {
		w := q.sq.at(q.req.cur)
		sum += w.length + uint32(w.status)
	}
	return sum
}

// touchBatch touches the queue pairs of the frames that were received. It looks where the QPN usually is, and does not care if it is
// wrong.
func (d *Device) touchBatch(n int) {
	if d.QPs() < touchFrom {
		return
	}
	list := d.touching[:0]
	sum := uint32(0)
	for i := range d.in[:n] {
		f := d.in[i].Data
		at := 14 + 20 + 8 + 4
		if len(f) > 12 && f[12] == 0x86 {
			at += 20
		}
		if len(f) < at+4 {
			continue
		}
		sum += uint32(f[len(f)-1])
		if q := d.place(binary.BigEndian.Uint32(f[at:])).Load(); q != nil && q.dev == d {
			list = append(list, q)
		}
	}
	d.touched = sum
	d.touchAll(list)
}

// touchAll touches queue pairs.
func (d *Device) touchAll(list []*QP) {
	if d.QPs() < touchFrom {
		return
	}
	sum := uint32(0)
	for _, q := range list {
		sum += q.touch()
	}
	for _, q := range list {
		sum += q.touchQueue()
	}
	d.touched += sum
}
