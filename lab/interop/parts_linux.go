package interop

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/lab"
	"github.com/rocescope/rocescope/lab/play"
)

// part is what rocescope does in a row. A server's part closes listening once Linux's program can connect.
type part struct {
	name string // for the page
	mtu  int    // path MTU; 0 = 1024
	// command says that a command of rocescope plays it, which brings its own software RNIC.
	command bool
	play    func(s *scene) error
}

// scene is what a part has.
type scene struct {
	row       *Row
	lab       *Lab
	node      *play.Node // nil for a part that is played by a command
	us, it    netip.Addr
	listening chan struct{}
	over      chan struct{} // closed when Linux's program has ended
}

func (s *scene) server() connect.Parameters { return connect.Parameters{Address: s.it} }

const socketPort = connect.PerftestPort

func rping(size, count int) part {
	return part{name: fmt.Sprintf("rping, %d × %d bytes, READ and WRITE", count, size), play: func(s *scene) error {
		if s.row.Role == Client {
			return s.node.RpingClient(s.server(), size, count)
		}
		if err := s.node.Listen(7174); err != nil {
			return err
		}
		close(s.listening)
		return s.node.RpingServer(count)
	}}
}

func ucmatose(size, count int) part {
	return part{name: fmt.Sprintf("ucmatose, %d × %d bytes", count, size), play: func(s *scene) error {
		if s.row.Role == Client {
			return s.node.UcmatoseClient(s.server(), size, count, false)
		}
		if err := s.node.Listen(7471); err != nil {
			return err
		}
		close(s.listening)
		return s.node.UcmatoseServer(size, count)
	}}
}

func pingpong(t dissect.Transport, mtu, size, count int) part {
	return part{name: fmt.Sprintf("%v pingpong, %d × %d bytes", t, count, size), mtu: mtu, play: func(s *scene) error {
		if s.row.Role == Client { // the programs have no IPv6 sockets, whatever their queue pairs have
			return s.node.PingpongClient(t, netip.AddrPortFrom(lab.Peer.IP4.Addr(), socketPort), size, count)
		}
		return s.node.PingpongServer(t, netip.AddrPortFrom(lab.Host.IP4.Addr(), socketPort), size, count, s.listening)
	}}
}

// immediates answers ucmatose by WRITEs.
func immediates(size, count int) part {
	return part{name: fmt.Sprintf("ucmatose, %d WRITEs of 0 bytes with immediate for answers", count), play: func(s *scene) error {
		return s.node.UcmatoseClient(s.server(), size, count, true)
	}}
}

// refused connects to a port that nobody listens on.
func refused() part {
	return part{name: "connects to a port without a listener", play: func(s *scene) error {
		err := s.node.DialNobody(s.server(), 9999)
		var why *play.RejectedError
		if !errors.As(err, &why) {
			return fmt.Errorf("the connection was not refused: %w", err)
		}
		if why.Reason != dissect.RejInvalidServiceID {
			return fmt.Errorf("refused for another reason: %w", err)
		}
		return nil
	}}
}

// absent listens on nothing.
func absent() part {
	return part{name: "has no listener", play: func(s *scene) error {
		close(s.listening)
		return s.node.Refuses()
	}}
}
