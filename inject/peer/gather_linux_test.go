package peer

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/testkit"
)

// A host on an interface of several queues answers what arrives in any of them: the connection, a WRITE and a READ; with one thread for
// all, and with one for each, whichever has the queue pair.
func TestTrafficOnEachQueue(t *testing.T) {
	for _, threads := range []int{1, 2} {
		for home := range threads {
			t.Run(fmt.Sprintf("threads=%d,home=%d", threads, home), func(t *testing.T) { trafficOnEachQueue(t, threads, home) })
		}
	}
}

func trafficOnEachQueue(t *testing.T, threads, home int) {
	const queues = 2
	lab := testkit.NewLab(t, testkit.LabOptions{Queues: queues})
	addrs := [2]netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.2")}
	var far *Host
	var ends []port.Port
	var err error
	lab.B.Do(func() {
		far, err = Open(Options{Interface: lab.B.Iface, Via: port.ViaXDP, Addrs: addrs[1:], Threads: threads})
	})
	if errors.Is(err, port.ErrNotSupported) || errors.Is(err, port.ErrPrivilege) {
		t.Skip(err) // it says what this kernel or user lacks; CI runs it as root
	}
	must(t, err)
	t.Cleanup(func() { must(t, far.Close()) })
	var all []port.Port
	for _, x := range far.Threads() {
		if g, ok := x.port.(*gathered); ok {
			all = append(all, g.all...)
		} else {
			all = append(all, x.port)
		}
	}
	if len(all) != queues || len(far.Threads()) != threads {
		t.Fatalf("the interface has %d queues, and the host %d, on %d threads", queues, len(all), len(far.Threads()))
	}
	give := newParty(t, far.Threads()[home])
	_, err = far.Listen(t.Context(), Listening{Accept: func(Call) (Party, error) { return give, nil }})
	must(t, err)

	for queue := range queues {
		// The near end sends through that queue, which is where it arrives.
		lab.A.Do(func() {
			ends, _, err = port.Open(port.Options{Via: port.ViaXDP, Interface: lab.A.Iface, Queues: queues, All: true})
		})
		must(t, err)
		ask, err := New(&gathered{Port: ends[queue], all: ends}, Options{MAC: [6]byte(lab.A.Link().Attrs().HardwareAddr), Addrs: addrs[:1]})
		must(t, err)
		party := newParty(t, ask.Threads()[0])
		before := all[queue].Stats().Received
		handed := far.Counters().HandedOver
		s, err := ask.Dial(t.Context(), Request{Way: ByCM, Peer: netip.AddrPortFrom(addrs[1], connect.PerftestPort), Maker: party, Local: connect.Parameters{Transport: dissect.RC, AckTimeout: 20}})
		must(t, err)
		remote := s.Conns[0].Remote.Memory
		party.mr.Bytes()[0] = byte(0xA0 + queue)
		for i, op := range []rnic.Op{rnic.OpWrite, rnic.OpRead} {
			must(t, s.Conns[0].QP.PostSend(rnic.SendWR{Op: op, Flags: rnic.Signaled, SGL: []rnic.SGE{party.mr.SGE(i, 1)}, RemoteVA: remote.VA, RKey: remote.RKey}))
			var done [1]rnic.Completion
			for party.cq.Poll(done[:]) == 0 {
				time.Sleep(time.Millisecond)
			}
			if done[0].Status != rnic.Success {
				t.Fatalf("queue %d: %v: %v", queue, op, done[0].Status)
			}
		}
		must(t, ask.Do(func() error {
			if got := party.mr.Bytes()[1]; got != byte(0xA0+queue) {
				t.Errorf("queue %d: read %#x behind what was written", queue, got)
			}
			return nil
		}))
		must(t, s.Close())
		if err := <-give.closed; err != nil {
			t.Errorf("queue %d: the end was told as %v", queue, err)
		}
		if n := all[queue].Stats().Received - before; n < 4 { // REQ, RTU, WRITE, READ
			t.Errorf("%d frames arrived in queue %d; the other side sent all of them there", n, queue)
		}
		// CM's packets are the first thread's, the others that of the queue pair.
		least := uint64(0)
		for _, owner := range []int{0, home} {
			if queue != owner {
				least += 2
			}
		}
		if n := far.Counters().HandedOver - handed; threads > 1 && n < least || threads == 1 && n > 0 {
			t.Errorf("%d frames of queue %d were handed over", n, queue)
		}
		must(t, ask.Close())
	}
	if _, s := far.Port(); s.Received != all[0].Stats().Received+all[1].Stats().Received {
		t.Errorf("%d frames arrived in all", s.Received)
	}
}
