package captures

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/internal/xsk"
)

const (
	// A frame lies in a chunk: in the smaller ones if none can be longer, for the fewer pages there are, the more of them the
	// caches hold.
	xdpChunk      = 4096
	xdpSmallChunk = 2048

	xdpLeast = 2048    // descriptors of a ring; 16384 of them last a while on a busy machine
	xdpMost  = 1 << 18 //

	// xdpLook is after what time it is looked whether the interface is still there,
	// and xdpSettle whether the last frames have come out.
	xdpLook   = 200 * time.Millisecond
	xdpSettle = time.Millisecond
)

// xdpFilter is what of a capture filter the XDP program can decide: none, or a
// list of what it knows, joined by or.
func xdpFilter(filter string) (o xsk.ProgramOptions, err error) {
	text := strings.TrimSpace(filter)
	if text == "" {
		text = "default"
	}
	switch strings.ToLower(text) {
	case "none", "all":
		o.All = true
		return o, nil
	}
	words := tokenize(strings.ToLower(text))
	var plain []string
	for _, w := range words {
		if w.text != "(" && w.text != ")" {
			plain = append(plain, w.text)
		}
	}
	refuse := fmt.Errorf("%w: the engine xdp decides with less: none, or roce and more of default, pause and tcp port N, joined by or", ErrNotOffered)
	roce := false
	for _, term := range strings.Split(strings.Join(plain, " "), " or ") {
		switch port, isPort := strings.CutPrefix(term, "tcp port "); {
		case isPort:
			n, err := strconv.ParseUint(port, 0, 16)
			if err != nil || len(o.TCPPorts) == xsk.MaxTCPPorts {
				return o, refuse
			}
			o.TCPPorts = append(o.TCPPorts, uint16(n))
		case term == "default":
			sub, err := xdpFilter(DefaultFilter)
			if err != nil {
				return o, err
			}
			roce, o.Pause, o.TCPPorts = true, true, append(o.TCPPorts, sub.TCPPorts...)
		case term == "roce":
			roce = true
		case term == "pause" || term == "pfc":
			o.Pause = true
		default:
			return o, refuse
		}
	}
	if !roce { // the program always takes it
		return o, refuse
	}
	return o, nil
}

// xdpSource is a Source over one AF_XDP socket for each queue of an interface, each
// with a thread of its own: of a single queue, it is the one that reads.
type xdpSource struct {
	o       LiveOptions
	dev     *device
	program *xsk.Program
	attach  *xsk.Attachment
	queues  []*xdpQueue
	ifaces  []Interface
	asked   asked
	wake    chan struct{} // rung when a queue has frames, and by Stop
	look    *time.Timer
	bell    wakeup // ends the threads; of a single queue, the reader's wait
	core    int    // of the reader, where it is the thread of the only queue
	pinned  bool
	few     bool  // frames came the last time
	newest  int64 // time of the newest frame that was handed out
	tries   int

	err      error
	ending   error
	stopping atomic.Bool

	mu     sync.Mutex
	closed bool
	stats  LiveStats
	late   atomic.Uint64
}

func openXDP(o *LiveOptions) (_ *xdpSource, err error) {
	filter, err := xdpFilter(o.Filter)
	if err != nil {
		return nil, liveError(o.Interface, "filter "+o.Filter, nil, err)
	}
	switch {
	case o.Direction == Out:
		return nil, liveError(o.Interface, "frames that this host sends, with the engine xdp", ErrNotOffered, nil)
	case o.Clock == AdapterClock:
		return nil, liveError(o.Interface, "hardware time stamps with the engine xdp", ErrNotOffered, nil)
	case o.Rings > 0:
		return nil, liveError(o.Interface, "a number of rings with the engine xdp, which has one for each queue", ErrNotOffered, nil)
	}
	dev, err := findDevice(o.Interface)
	if err != nil {
		return nil, err
	}
	s := &xdpSource{o: *o, dev: dev, bell: wakeup{-1}, wake: make(chan struct{}, 1), look: time.NewTimer(xdpLook)}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := dev.ethernet(); err != nil {
		return nil, err
	}
	if !dev.up {
		return nil, liveError(dev.name, "", ErrInterfaceDown, nil)
	}
	allowPriority()
	if s.bell, err = newWakeup(); err != nil {
		return nil, liveError(dev.name, "make an event", nil, err)
	}
	queues := max(1, dev.queues)
	filter.Queues = max(64, queues)
	if s.program, err = xsk.LoadProgram(filter); err != nil {
		return nil, s.refused(err)
	}
	if err := xsk.Vacant(dev.name); err != nil { // sockets would wait for the queues of who attached it
		return nil, s.refused(err)
	}
	for n := range queues {
		if err := s.open(n, queues); err != nil {
			return nil, s.refused(err)
		}
	}
	// Cards spread their queues' interrupts over the first cores: where there are more
	// cores than queues, the threads get others.
	all := cores()
	if queues == 1 {
		s.core = all[1%len(all)]
	} else {
		for n, q := range s.queues {
			q.start(s, all[(queues+n)%len(all)])
		}
	}
	// Last of all: what comes before would find no socket.
	if s.attach, err = s.program.Attach(dev.name, xsk.AttachAuto); err != nil {
		return nil, s.refused(err)
	}
	i := dev.describe(o)
	i.Description += fmt.Sprintf(", %v %v", s.attach.Mode, s.queues[0].sock.Info().Mode)
	if queues > 1 {
		i.Description += fmt.Sprintf(", %d queues", queues)
	}
	s.ifaces = []Interface{i}
	return s, nil
}

// open makes the socket of a queue.
func (s *xdpSource) open(queue, queues int) error {
	size := max(1, s.o.Ring/queues/xdpChunk)
	size = min(max(1<<(bits.Len(uint(size))-1), xdpLeast), xdpMost)
	const tags = 14 + 2*tagLength
	longest := s.dev.mtu + tags
	chunk := xdpSmallChunk
	if longest > xsk.RxFrameSize(chunk) {
		chunk = xdpChunk
	}
	umem, err := xsk.NewUMEM(xsk.UMEMOptions{Chunks: size, ChunkSize: chunk})
	if err != nil {
		return err
	}
	q := newXDPQueue(umem, size, s.o.SnapLen)
	s.queues = append(s.queues, q)
	o := xsk.Options{Interface: s.dev.name, Queue: queue, UMEM: umem, RX: size}
	o.MultiBuffer = longest > umem.RxFrameSize() && xsk.HaveMultiBuffer() == nil
	if q.sock, err = xsk.Open(o); err != nil {
		return err
	}
	return s.program.Register(q.sock)
}

// refused gives an error of package xsk the sentinel of this one.
func (s *xdpSource) refused(err error) error {
	for _, row := range []struct{ theirs, ours error }{
		{xsk.ErrPrivilege, ErrPrivilege},
		{xsk.ErrGone, ErrInterfaceGone},
		{xsk.ErrDown, ErrInterfaceDown},
		{xsk.ErrNotSupported, ErrNotOffered},
		{xsk.ErrBusy, ErrNotOffered},
		{xsk.ErrFrameSize, ErrNotOffered},
	} {
		if errors.Is(err, row.theirs) {
			return liveError(s.dev.name, "engine xdp", row.ours, err)
		}
	}
	return liveError(s.dev.name, "engine xdp", nil, err)
}

// Prompt implements Prompter: whoever reads is bound to a thread of its own.
func (s *xdpSource) Prompt() bool { return false }

// ReadBatch implements Source.
func (s *xdpSource) ReadBatch(dst []Frame) (int, error) {
	if len(dst) == 0 || s.err != nil {
		return 0, s.err
	}
	if len(s.queues) == 1 && !s.pinned {
		pin(s.core)
		s.pinned = true
	}
	for _, q := range s.queues {
		q.giveBack()
	}
	for {
		if n := s.merge(dst); n > 0 {
			s.tries, s.few = 0, n < min(xdpFew, len(dst))
			return n, nil
		}
		if s.few && len(s.queues) == 1 && s.ending == nil {
			s.few = false
			pause()
			continue
		}
		if err := s.wait(); err != nil {
			s.err = err
			return 0, err
		}
	}
}

// merge hands out what the queues' threads have, in the order of time.
func (s *xdpSource) merge(dst []Frame) (n int) {
	for n < len(dst) {
		var first *xdpQueue
		others := int64(math.MaxInt64)
		for _, q := range s.queues {
			switch {
			case !q.open():
			case first == nil:
				first = q
			case q.head() < first.head():
				first, others = q, first.head()
			default:
				others = min(others, q.head())
			}
		}
		if first == nil {
			break
		}
		got := first.handOut(dst[n:], others)
		if isLate(dst[n].Time, s.newest) {
			s.late.Add(uint64(got))
		} else {
			s.newest = dst[n+got-1].Time
		}
		n += got
	}
	return n
}

// wait returns when there may be frames, and an error when there will be none.
func (s *xdpSource) wait() error {
	if s.ending == nil && s.stopping.Load() {
		s.end(io.EOF)
	}
	timeout := xdpLook
	if s.ending != nil {
		if s.tries++; s.counts(false).Waiting == 0 || s.tries > settleTries {
			return s.ending
		}
		timeout = xdpSettle
	}
	if over := s.sleep(timeout); over && s.ending == nil && !s.dev.exists() {
		s.end(liveError(s.dev.name, "", ErrInterfaceGone, nil))
	}
	return nil
}

// sleep waits for frames. It says whether there is a reason to look after the
// interface: nothing came for some time, or the socket is not well.
func (s *xdpSource) sleep(timeout time.Duration) (look bool) {
	if len(s.queues) == 1 {
		bell := s.bell
		if s.ending != nil {
			bell.fd = -1 // it goes on ringing
		}
		rang, well := s.queues[0].sleep(bell, int(timeout.Milliseconds()))
		return !well || !rang && s.queues[0].polls[0].Revents == 0
	}
	s.look.Reset(timeout)
	select {
	case <-s.wake:
		return false
	case <-s.look.C:
		return true
	}
}

// ring wakes ReadBatch.
func (s *xdpSource) ring() {
	select {
	case s.wake <- struct{}{}:
	default: // it rings already
	}
}

// end lets no more frames in.
func (s *xdpSource) end(reason error) {
	s.ending = reason
	if err := s.attach.Close(); err != nil && errors.Is(reason, io.EOF) {
		s.ending = errors.Join(reason, s.refused(err))
	}
}

// Stop implements backend.
func (s *xdpSource) Stop() {
	s.stopping.Store(true)
	s.ring()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queues) == 1 && !s.closed {
		s.bell.ring()
	}
}

// Stats implements backend.
func (s *xdpSource) Stats() LiveStats { return s.counts(true) }

func (s *xdpSource) counts(card bool) LiveStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(card)
	st := s.stats
	st.Late = s.late.Load()
	for _, q := range s.queues {
		r := RingStats{Delivered: q.delivered.Load(), Dropped: q.dropped}
		r.Seen = max(q.received.Load(), r.Delivered) + r.Dropped
		st.Rings = append(st.Rings, r)
		st.Delivered += r.Delivered
		st.RingDropped += r.Dropped
	}
	// Frames that came in meanwhile may have been delivered already.
	st.Seen = max(st.Seen, st.Delivered+st.RingDropped)
	st.Waiting = st.Seen - st.Delivered - st.RingDropped
	return st
}

// count asks the sockets and the program. s.mu is held.
func (s *xdpSource) count(card bool) {
	if s.closed || s.attach == nil {
		return
	}
	if c, err := s.program.Counters(); err == nil {
		s.stats.Seen = c.Redirected()
		for _, q := range s.queues {
			if st, err := q.sock.Stats(); err == nil {
				q.dropped = st.RxLost() + st.RxBroken
			}
		}
	}
	if card {
		s.dev.countDropped(&s.stats)
	}
}

// Interfaces implements Source.
func (s *xdpSource) Interfaces() []Interface {
	if s.asked.due(s.err) {
		s.ifaces[0].Stats = s.counts(false).Interface()
	}
	return s.ifaces[:1:1]
}

// Close implements Source.
func (s *xdpSource) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.count(true)
	s.closed = true
	if s.err == nil {
		s.err = errClosed
	}
	if s.attach != nil {
		_ = s.attach.Close() // it may be closed already, or gone with the interface
	}
	s.bell.ring()
	var errs []error
	for _, q := range s.queues {
		errs = append(errs, q.close())
	}
	if s.program != nil {
		errs = append(errs, s.program.Close())
	}
	s.bell.close()
	s.dev.handle.Close()
	return errors.Join(errs...)
}
