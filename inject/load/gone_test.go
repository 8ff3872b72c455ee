package load

import (
	"net"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
)

// TestClientGone has clients that send the first packet of a WRITE and are gone: the server says so, nothing of them is left, and the
// next one is served.
func TestClientGone(t *testing.T) {
	const mtu = 1024
	l := newLab(t, 0, Serving{Region: 64 << 10, Memory: 128 << 10, Connections: 1}, nil)
	for range 5 { // the limits allow for one at a time
		socket, err := net.Dial("tcp", l.tcp.String())
		must(t, err)
		local := connect.Parameters{Transport: dissect.RC, Address: l.addrs[0][0], QPN: 0x4242, PSN: 100, MTU: mtu, AckTimeout: 20, RetryCount: 7, RNRRetryCount: 7}
		far, err := connect.NewExchange(socket, time.Minute).Offer([]connect.Parameters{local})
		must(t, err)
		outer := dissect.Outer{
			SrcMAC: l.ask.Device().MAC(), DstMAC: l.give.Device().MAC(), Src: local.Address, Dst: far[0].Address, SrcPort: 0xC123,
		}
		at := len(outer.AppendTo(nil))
		frame := append(dissect.AppendTransport(outer.AppendTo(nil), dissect.OpRCWriteFirst), make([]byte, mtu)...)
		bth := dissect.BTH(frame[at:])
		bth.SetDestQP(far[0].QPN)
		bth.SetPSN(local.PSN)
		bth.SetAckReq(true)
		reth := dissect.RETH(dissect.OpRCWriteFirst.Info().View(frame[at:], dissect.LayerRETH))
		reth.SetVA(far[0].Memory.VA)
		reth.SetRKey(far[0].Memory.RKey)
		reth.SetDMALen(10 * mtu)
		var craft dissect.Crafter
		frame, err = craft.Seal(&outer, frame)
		must(t, err)
		before := l.give.Device().Counters().TxAnswers
		must(t, l.ask.Device().SendFrame(frame))
		for l.give.Device().Counters().TxAnswers == before {
			time.Sleep(time.Millisecond)
		}
		must(t, socket.Close())
		for l.give.Device().QPs() > 0 {
			time.Sleep(time.Millisecond)
		}
		must(t, l.give.Do(func() error {
			if last := l.last(); last.Kind != Closed || last.Err == nil || last.QPs != 1 {
				t.Errorf("the server says %v, %v", last.Kind, last.Err)
			}
			if l.r.memory != 0 || l.r.qps != 0 || len(l.r.all) != 0 {
				t.Errorf("%d bytes, %d queue pairs, %d conversations are left", l.r.memory, l.r.qps, len(l.r.all))
			}
			return nil
		}))
	}
	plan := Plan{Op: rnic.OpWrite, Transport: dissect.RC, Size: 5000, Count: 5, Verify: true}
	res, err := l.run(plan, peer.Request{Local: connect.Parameters{MTU: mtu}})
	l.good(plan, res, err)
}
