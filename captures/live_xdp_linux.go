package captures

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/xsk"
)

const (
	xdpChunk   = 4096
	xdpLeast   = 2048    // descriptors of a ring; 16384 of them last a while on a busy machine
	xdpMost    = 1 << 18 //
	xdpLook    = 200     // milliseconds after which it is looked whether the interface is still there
	xdpPackets = 512     // packets taken at a time

	// When less than xdpFew packets came at a time, the next ones get xdpPause to
	// come together: to be woken for each costs more than all the rest.
	xdpFew   = 64
	xdpPause = 200 * time.Microsecond
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

// xdpSource is a Source over one AF_XDP socket for each queue of an interface.
// Frames are borrowed from the sockets' memory until the next ReadBatch.
type xdpSource struct {
	o       LiveOptions
	dev     *device
	bell    wakeup
	program *xsk.Program
	attach  *xsk.Attachment
	sockets []*xsk.Socket
	umems   []*xsk.UMEM
	polls   []unix.PollFd
	ifaces  []Interface
	packets []xsk.Packet
	arena   []byte // frames that came in several parts
	next    int    // socket to look at next
	held    *xsk.Socket
	few     bool // came the last time
	tries   int

	err      error
	ending   error
	stopping atomic.Bool

	mu        sync.Mutex
	closed    bool
	stats     LiveStats
	delivered atomic.Uint64
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
	}
	dev, err := findDevice(o.Interface)
	if err != nil {
		return nil, err
	}
	s := &xdpSource{o: *o, dev: dev, bell: wakeup{-1}, packets: make([]xsk.Packet, xdpPackets)}
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
	if s.bell, err = newWakeup(); err != nil {
		return nil, liveError(dev.name, "make an event", nil, err)
	}
	features, err := xsk.Probe(dev.name)
	if err != nil {
		return nil, s.refused(err)
	}
	queues := max(1, features.Queues.RX)
	filter.Queues = max(64, queues)
	if s.program, err = xsk.LoadProgram(filter); err != nil {
		return nil, s.refused(err)
	}
	for q := range queues {
		if err := s.open(q, queues); err != nil {
			return nil, s.refused(err)
		}
	}
	// Last of all: what comes before would find no socket.
	if s.attach, err = s.program.Attach(dev.name, xsk.AttachAuto); err != nil {
		return nil, s.refused(err)
	}
	s.polls = append(s.polls, unix.PollFd{Fd: int32(s.bell.fd), Events: unix.POLLIN})
	i := dev.describe(o)
	i.Description += fmt.Sprintf(", %v %v, %d queues", s.attach.Mode, s.sockets[0].Info().Mode, queues)
	s.ifaces = []Interface{i}
	return s, nil
}

// open makes the socket of a queue.
func (s *xdpSource) open(queue, queues int) error {
	size := max(1, s.o.Ring/queues/xdpChunk)
	size = min(max(1<<(bits.Len(uint(size))-1), xdpLeast), xdpMost)
	umem, err := xsk.NewUMEM(xsk.UMEMOptions{Chunks: size, ChunkSize: xdpChunk})
	if err != nil {
		return err
	}
	s.umems = append(s.umems, umem)
	o := xsk.Options{Interface: s.dev.name, Queue: queue, UMEM: umem, RX: size}
	const tags = 14 + 2*tagLength
	o.MultiBuffer = s.dev.mtu+tags > umem.RxFrameSize() && xsk.HaveMultiBuffer() == nil
	sock, err := xsk.Open(o)
	if err != nil {
		return err
	}
	s.sockets = append(s.sockets, sock)
	s.polls = append(s.polls, unix.PollFd{Fd: int32(sock.FD()), Events: unix.POLLIN})
	return s.program.Register(sock)
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

// ReadBatch implements Source.
func (s *xdpSource) ReadBatch(dst []Frame) (int, error) {
	if len(dst) == 0 || s.err != nil {
		return 0, s.err
	}
	if s.held != nil {
		s.held.Release()
		s.held = nil
	}
	for {
		for range s.sockets {
			sock := s.sockets[s.next]
			s.next = (s.next + 1) % len(s.sockets)
			if n := sock.Receive(s.packets[:min(len(dst), len(s.packets))]); n > 0 {
				s.held, s.few = sock, n < xdpFew
				s.frames(sock, s.packets[:n], dst)
				return n, nil
			}
		}
		if s.few && s.ending == nil {
			s.few = false
			time.Sleep(xdpPause)
			continue
		}
		if err := s.wait(); err != nil {
			s.err = err
			return 0, err
		}
	}
}

// frames makes frames of packets. AF_XDP has no time of arrival, so they get that
// of now.
func (s *xdpSource) frames(sock *xsk.Socket, packets []xsk.Packet, dst []Frame) {
	now := time.Now().UnixNano()
	s.arena = s.arena[:0]
	for i, p := range packets {
		data := sock.Bytes(p)
		if p.Descs > 1 {
			at := len(s.arena)
			s.arena = sock.Append(s.arena, p)
			data = s.arena[at:]
		}
		n := min(len(data), s.o.SnapLen)
		dst[i] = Frame{Time: now, Data: data[:n:n], WireLen: int(p.Len), Link: dissect.LinkEthernet, HasTime: true}
	}
	s.delivered.Add(uint64(len(packets)))
}

// wait returns when there may be frames, and an error when there will be none.
func (s *xdpSource) wait() error {
	if s.ending == nil && s.stopping.Load() {
		s.end(io.EOF)
	}
	timeout := xdpLook
	watched := s.polls
	if s.ending != nil {
		s.tries++
		if s.counts(false).Waiting == 0 || s.tries > settleTries {
			return s.ending
		}
		timeout, watched = 1, s.polls[:len(s.sockets)] // the bell goes on ringing
	}
	n, err := unix.Poll(watched, timeout)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return liveError(s.dev.name, "wait for frames", nil, err)
	}
	if s.ending != nil {
		return nil
	}
	broken := false
	for i := range watched {
		broken = broken || watched[i].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
	}
	switch {
	case n > 0 && !broken || s.dev.exists():
		if broken {
			time.Sleep(time.Millisecond) // an interface that is down; it must not make a busy loop
		}
	default:
		s.end(liveError(s.dev.name, "", ErrInterfaceGone, nil))
	}
	return nil
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
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
	st.Delivered = s.delivered.Load()
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
		s.stats.RingDropped = 0
		for _, sock := range s.sockets {
			if st, err := sock.Stats(); err == nil {
				s.stats.RingDropped += st.RxLost() + st.RxBroken
			}
		}
	}
	if !card {
		return
	}
	if n, ok := s.dev.cardDropped(); ok {
		s.stats.CardDropped = n
	}
}

// Interfaces implements Source.
func (s *xdpSource) Interfaces() []Interface {
	s.ifaces[0].Stats = s.counts(false).Interface()
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
	var errs []error
	for _, sock := range s.sockets {
		errs = append(errs, sock.Close())
	}
	for _, u := range s.umems {
		errs = append(errs, u.Close())
	}
	if s.program != nil {
		errs = append(errs, s.program.Close())
	}
	if s.bell.fd >= 0 {
		unix.Close(s.bell.fd)
	}
	s.dev.handle.Close()
	return errors.Join(errs...)
}
