package load

import (
	"github.com/rocescope/rocescope/inject/rnic"
)

// answer sends back what came, from where it came: the other side sends no more until it has it.
func (s *server) answer(n, at, length int, c *rnic.Completion) error {
	wr := rnic.SendWR{ID: uint64(s.index)<<32 | uint64(n), Op: rnic.OpSend, Flags: rnic.Signaled}
	sge := [1]rnic.SGE{s.recv.SGE(at, length)}
	wr.SGL = sge[:]
	if s.c.AH != nil {
		wr.AH, wr.DstQP, wr.QKey = s.c.AH, c.SrcQP, s.c.Remote.QKey
	}
	s.pending++
	return s.c.QP.PostSend(wr)
}

// rallyWrites answers WRITEs as ib_write_lat does: it begins, and each message's last byte is its number.
func (x *share) rallyWrites() (busy bool) {
	o := &x.v.r.o
	size := o.RallySize
	for _, s := range x.qps {
		if s.c == nil || s.pending > 0 || x.failed != nil {
			continue
		}
		b := s.mr.Bytes()
		if s.posted > s.got {
			if b[size-1] != byte(s.got+1) {
				continue
			}
			s.got++
		}
		if s.posted >= o.RallyCount {
			continue
		}
		s.posted++
		s.out.Bytes()[size-1] = byte(s.posted)
		sge := [1]rnic.SGE{s.out.SGE(0, size)}
		err := s.c.QP.PostSend(rnic.SendWR{
			ID: uint64(s.index) << 32, Op: rnic.OpWrite, Flags: rnic.Signaled, SGL: sge[:], RemoteVA: s.c.Remote.Memory.VA, RKey: s.c.Remote.Memory.RKey,
		})
		if s.pending++; err != nil {
			x.broken(s, err)
		}
		busy = true
	}
	return busy
}
