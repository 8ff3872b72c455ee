package rnic

import (
	"math"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// Congestion control (annex A17.9, DCQCN): the receiver of a packet marked CE notifies its sender by a CNP, and the sender of what was
// marked slows down.

// marked notes that a packet arrived with CE, and owes its sender a notification if the last was long enough ago.
func (q *QP) marked(a *arrival) {
	d := q.dev
	d.counters.NpEcnMarked++
	if q.cnpDue || q.cnpAt != 0 && d.now-q.cnpAt < int64(d.opt.CNPInterval) {
		return
	}
	to := q.attr.AH
	to.SrcPort = 0
	qpn := q.attr.DestQPN
	if q.typ == dissect.UD {
		qpn = a.p.SrcQP
		to = AHAttr{Dst: a.p.Src.Netip(), DstMAC: [6]byte(a.frame[6:12]), TrafficClass: a.p.TrafficClass &^ congestionExperienced}
		for i, g := range d.gids {
			if g == a.p.Dst {
				to.SGIDIndex = i
			}
		}
	}
	if d.opt.CNPTraffic != 0 {
		to.TrafficClass = d.opt.CNPTraffic
	}
	q.cnpPeer = d.pathTo(&to, q.qpn, qpn)
	q.cnpDue, q.cnpAt = true, d.now
	q.activate()
}

// cnpReserved is the length of what follows the BTH of a CNP (annex A17.9.3).
const cnpReserved = 16

// sendCNP sends the notification that is owed.
func (q *QP) sendCNP() {
	d := q.dev
	q.cnpDue = false
	op := dissect.OpCNP.Info()
	room := d.out.room()
	bth, reserved := q.cnpPeer.begin(room, op, q, 0)
	bth.SetMigReq(false)
	bth.SetBECN(true)
	clear(reserved[:cnpReserved])
	d.out.commit(d.finish(&q.cnpPeer, room, op, cnpReserved, &q.ipid))
	d.counters.NpCnpSent++
}

// notified takes a CNP.
func (q *QP) notified() {
	q.dev.counters.RpCnpHandled++
	if q.tuning.Paced {
		q.rate.cut(q)
	}
}

// rate is the sender's half of DCQCN, one per queue pair. Its time runs when the queue pair sends: an idle one costs nothing.
type rate struct {
	held    bool  // something waits for next
	next    int64 // when the next packet may leave
	current float64
	target  float64 // bytes per nanosecond, both; current 0 = not limited
	alpha   float64

	cutAt, alphaAt, riseAt int64
	bytes                  int // since the byte counter ran over
	byTime, byBytes        int // how often each counter ran over since the last cut
}

// DCQCN's parameters, as in its authors' simulator.
const (
	dcqcnGain       = 1.0 / 256
	alphaPeriod     = int64(55 * time.Microsecond)
	risePeriod      = int64(1500 * time.Microsecond)
	riseBytes       = 10 << 20
	fastRecovery    = 5
	additiveRate    = 5e6 / 8 / 1e9 // 5 Mb/s
	hyperRate       = 50e6 / 8 / 1e9
	leastRate       = 100e6 / 8 / 1e9
	cutPeriod       = int64(4 * time.Microsecond)
	maxRiseAtOnce   = 4096 // after so long an idle time the rest does not matter
	lineRateReached = 0.999
)

func (r *rate) line(q *QP) float64 { return float64(q.dev.opt.LineRate) / 8 / 1e9 }

// cut is what a CNP does.
func (r *rate) cut(q *QP) {
	now := q.dev.now
	if r.current == 0 {
		*r = rate{held: r.held, current: r.line(q), alpha: 1, alphaAt: now}
	} else if now-r.cutAt < cutPeriod {
		return
	} else {
		r.grow(q)
	}
	r.target = r.current
	r.current = max(r.current*(1-r.alpha/2), leastRate)
	r.alpha = (1-dcqcnGain)*r.alpha + dcqcnGain
	r.cutAt, r.alphaAt, r.riseAt = now, now, now
	r.bytes, r.byTime, r.byBytes = 0, 0, 0
}

// grow does what time has done since it was last looked at.
func (r *rate) grow(q *QP) {
	now := q.dev.now
	if n := (now - r.alphaAt) / alphaPeriod; n > 0 {
		r.alpha *= math.Pow(1-dcqcnGain, float64(n))
		r.alphaAt += n * alphaPeriod
	}
	n := (now - r.riseAt) / risePeriod
	r.riseAt += n * risePeriod
	for range min(n, maxRiseAtOnce) {
		r.byTime++
		r.rise(q)
	}
}

// rise is one step up: half the way back to the target, which after five of them rises too.
func (r *rate) rise(q *QP) {
	switch {
	case r.byTime > fastRecovery && r.byBytes > fastRecovery:
		r.target += hyperRate
	case r.byTime > fastRecovery || r.byBytes > fastRecovery:
		r.target += additiveRate
	}
	line := r.line(q)
	r.target = min(r.target, line)
	r.current = (r.target + r.current) / 2
}

// allows reports whether a packet may leave now.
func (r *rate) allows(q *QP) bool {
	if r.current == 0 {
		return true
	}
	r.grow(q)
	if r.current >= lineRateReached*r.line(q) {
		*r = rate{}
		return true
	}
	r.held = q.dev.now < r.next
	return !r.held
}

// sent notes that a frame left.
func (r *rate) sent(q *QP, n int) {
	if r.current == 0 {
		return
	}
	r.next = max(r.next, q.dev.now) + int64(float64(n)/r.current)
	if r.bytes += n; r.bytes >= riseBytes {
		r.bytes -= riseBytes
		r.byBytes++
		r.rise(q)
	}
}

// Rate returns the rate that congestion control allows the queue pair, bits per second; ok is false where it does not limit it.
func (q *QP) Rate() (bps float64, ok bool) {
	q.dev.lock()
	defer q.dev.unlock()
	if q.rate.current != 0 {
		q.rate.grow(q)
	}
	return q.rate.current * 8e9, q.rate.current != 0
}
