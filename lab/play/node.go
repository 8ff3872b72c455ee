// Package play plays the other part in what the RDMA programs of Linux do: rping, ucmatose, the pingpong programs, over
// rocescope's software RNIC. Data is checked byte by byte, whatever the programs themselves check.
//
// It owns the parts to play and the small amount of glue between a device, communication management and blocking calls that
// they need. perftest's part belongs to rocescope's own commands.
package play

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Patience is how long the other side may take for any one thing. The guest is slow, and lost packets are sent again late.
const Patience = 60 * time.Second

// Options describe a Node's place.
type Options struct {
	Interface string
	MAC       [6]byte
	Addr      netip.Addr
	PeerMAC   [6]byte // of the one neighbour
	MTU       int     // path MTU; 0 = 1024
	// Timeout is the code of the acknowledgement time-out, 4.096 µs × 2^n: long where nothing is lost, since the guest has
	// a slow processor, and short where much is.
	Timeout uint8
}

// Node is a software RNIC with one goroutine that runs it.
type Node struct {
	o    Options
	port port.Port
	dev  *rnic.Device
	pd   *rnic.PD
	cm   *connect.CM

	calls chan func() // to be made by the goroutine that runs the device and CM
	quit  chan struct{}
	done  sync.WaitGroup

	conns    map[connect.ConnID]*Conn
	accepted chan *Conn
	failure  error
}

// Open makes a node.
func Open(o Options) (*Node, error) {
	if o.MTU == 0 {
		o.MTU = 1024
	}
	ports, _, err := port.Open(port.Options{Via: port.ViaPacket, Interface: o.Interface, Queues: 1})
	if err != nil {
		return nil, err
	}
	n := &Node{
		o: o, port: ports[0], calls: make(chan func()), quit: make(chan struct{}),
		conns: map[connect.ConnID]*Conn{}, accepted: make(chan *Conn, 64),
	}
	if n.dev, err = rnic.Open(n.port, rnic.Options{MAC: o.MAC, Addrs: []netip.Addr{o.Addr}}); err != nil {
		n.port.Close()
		return nil, err
	}
	n.pd = n.dev.AllocPD()
	if n.cm, err = connect.NewCM(connect.CMConfig{Send: n.dev.SendFrame, Event: n.event}); err != nil {
		n.port.Close()
		return nil, err
	}
	n.dev.OnManagement(func(frame []byte, _ int64) { n.cm.Handle(frame, now()) })
	n.done.Go(n.run)
	return n, nil
}

func now() int64 { return time.Now().UnixNano() }

// run drives the device and CM, by one goroutine, as both want it.
func (n *Node) run() {
	const nap = time.Millisecond
	for {
		busy, err := n.dev.Step()
		if err != nil {
			n.failure = err
			return
		}
		select {
		case call := <-n.calls:
			call()
			continue
		case <-n.quit:
			return
		default:
		}
		next := n.cm.Tick(now())
		if busy {
			continue
		}
		sleep := min(nap, time.Duration(next-now()))
		if at, ok := n.dev.Next(); ok {
			sleep = min(sleep, time.Duration(at-now()))
		}
		if sleep > 0 {
			if err := n.port.Wait(sleep); err != nil {
				n.failure = err
				return
			}
		}
	}
}

// do makes a call on the goroutine that runs everything.
func (n *Node) do(call func() error) error {
	result := make(chan error, 1)
	select {
	case n.calls <- func() { result <- call() }:
		return <-result
	case <-time.After(Patience):
		return fmt.Errorf("the software RNIC stands still: %w", n.failure)
	}
}

// Close ends the node once what it had to say last has left.
func (n *Node) Close() error {
	close(n.quit)
	n.done.Wait()
	return n.port.Close()
}

// linger gives the last datagrams of a conversation time to come and be answered.
const linger = 300 * time.Millisecond

// local is what this side says of a queue pair.
func (n *Node) local(t dissect.Transport, qpn uint32, psn dissect.PSN) connect.Parameters {
	return connect.Parameters{
		Transport: t, Address: n.o.Addr, QPN: qpn, PSN: psn, MTU: n.o.MTU,
		ResponderResources: 1, InitiatorDepth: 1, AckTimeout: n.o.Timeout, RetryCount: 7, RNRRetryCount: 7,
	}
}
