package play

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
)

// pingpongPSN is a good one to begin with: it wraps.
const pingpongPSN = 0xFFFFF0

// grh is what a datagram's receive has before its data.
func grh(t dissect.Transport) int {
	if t == dissect.UD {
		return 40
	}
	return 0
}

// Offsets in the memory of a pingpong connection: two receives, and what is sent.
const (
	pingpongIn  = 0
	pingpongOut = 4 * slot
)

// PingpongClient does as ibv_rc_pingpong and its kin do towards a server. They send back what they received, from the same
// memory: each answer must be what was sent.
func (n *Node) PingpongClient(t dissect.Transport, server netip.AddrPort, size, count int) error {
	c, err := n.pingpongConn(t, size)
	if err != nil {
		return err
	}
	stream, err := net.DialTimeout("tcp", server.String(), Patience)
	if err != nil {
		return err
	}
	defer stream.Close()
	local := n.local(t, c.qp.QPN(), pingpongPSN)
	remote, err := connect.Pingpong(stream, Patience, local)
	if err != nil {
		return err
	}
	if err := c.connect(local, remote); err != nil {
		return err
	}
	for i := range count {
		sent := c.ball(size)
		if err := c.send(pingpongOut, size); err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
		back, err := c.pong(size)
		if err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
		if !bytes.Equal(back, sent) {
			return fmt.Errorf("message %d came back changed", i+1)
		}
	}
	return nil
}

// PingpongServer does as ibv_rc_pingpong and its kin do without a server's name, but answers each message with another
// text: the client's next message must be that.
func (n *Node) PingpongServer(t dissect.Transport, at netip.AddrPort, size, count int, listening chan<- struct{}) error {
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		return err
	}
	defer l.Close()
	close(listening)
	stream, err := l.Accept()
	if err != nil {
		return err
	}
	defer stream.Close()
	a := &pingpongServer{n: n, t: t, size: size, count: count, finished: make(chan error, 1)}
	s := connect.Server{Transport: t, Pingpong: n.o.MTU, Patience: Patience, New: func(connect.Via, net.Addr) (connect.Application, error) { return a, nil }}
	err = s.Answer(stream, stream.RemoteAddr())
	if a.c == nil {
		return errors.Join(err, errors.New("the client went before there was a queue pair"))
	}
	return errors.Join(err, <-a.finished)
}

// pingpongServer is one conversation.
type pingpongServer struct {
	n           *Node
	t           dissect.Transport
	size, count int
	c           *Conn
	finished    chan error
}

func (s *pingpongServer) Open(remote connect.Parameters) (local connect.Parameters, err error) {
	if s.c, err = s.n.pingpongConn(s.t, s.size); err != nil {
		return local, err
	}
	local = s.n.local(s.t, s.c.qp.QPN(), pingpongPSN)
	if err := s.c.connect(local, remote); err != nil {
		return local, err
	}
	go func() { s.finished <- s.play() }()
	return local, nil
}

func (s *pingpongServer) Ready(int) error                  { return nil }
func (s *pingpongServer) Results() connect.PerftestResults { return connect.PerftestResults{} }
func (s *pingpongServer) Told(connect.PerftestResults)     {}
func (s *pingpongServer) Closed(error)                     {}

func (s *pingpongServer) play() error {
	var sent []byte
	for i := range s.count {
		got, err := s.c.pong(s.size)
		if err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
		if sent != nil && !bytes.Equal(got, sent) {
			return fmt.Errorf("message %d is not what was sent to be sent back", i+1)
		}
		sent = s.c.ball(s.size)
		if err := s.c.send(pingpongOut, s.size); err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	return nil
}

// pingpongConn is a queue pair with two receives.
func (n *Node) pingpongConn(t dissect.Transport, size int) (*Conn, error) {
	if size+grh(t) > slot {
		return nil, fmt.Errorf("messages of %d bytes are more than are kept here", size)
	}
	c, err := n.newConn(t, sizeOf)
	if err != nil {
		return nil, err
	}
	return c, errors.Join(c.init(), c.postRecv(pingpongIn, slot), c.postRecv(pingpongIn+slot, slot))
}

// ball makes a message as the programs' option -c wants it: each page of it begins with a zero.
func (c *Conn) ball(size int) []byte {
	const page = 4096
	b := c.fill(pingpongOut, size)
	for i := 0; i < size; i += page {
		b[i] = 0
	}
	return b
}

// pong waits for a message and returns a copy of it.
func (c *Conn) pong(size int) ([]byte, error) {
	at, length, err := c.recv()
	if err != nil {
		return nil, err
	}
	header := grh(c.qp.Type())
	if length != size+header {
		return nil, fmt.Errorf("it has %d bytes, not %d", length-header, size)
	}
	got := bytes.Clone(c.mr.Bytes()[at+header:][:size])
	return got, c.postRecv(at, slot)
}
