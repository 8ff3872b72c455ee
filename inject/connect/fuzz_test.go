package connect

import (
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
)

// FuzzExchange lets a client say anything to a server, on a socket and over a queue pair: it ends, and everything that was
// opened was sound and is closed once.
func FuzzExchange(f *testing.F) {
	preamble := "6.06" + strings.Repeat("\x00", 12) + "\x00\x00\x10\x00" + "\x00\x00\x00\x40" + "3\x00"
	key := string(appendKey(nil, &Parameters{Address: addrA, QPN: 0x11, Memory: Memory{RKey: 1, VA: 2}}))
	binary := string(appendBinaryKey(nil, &Parameters{Address: addrA, QPN: 0x11}))
	number := "\x00\x00\x00\x00\x00\x00\x10\x00"
	for _, s := range []string{
		"", preamble, preamble + key + key + key + key + strings.Repeat(number, 5) + key + doneText, preamble + binary + binary,
		string(appendPingpong(nil, &Parameters{Address: addrA, QPN: 0x11})) + doneText,
		goodOffer + `{"rocescope":1,"ready":true}` + "\n" + `{"rocescope":1,"done":true}` + "\n", "{\n", "0000:0001:000011",
	} {
		f.Add([]byte(s), uint8(0))
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, says []byte, step uint8) {
		for _, overCM := range []bool{false, true} {
			stream := &script{}
			for rest := says; len(rest) > 0; {
				n := len(rest)
				if step > 0 {
					n = min(n, int(step))
				}
				stream.pieces, rest = append(stream.pieces, string(rest[:n])), rest[n:]
			}
			app := &testApp{}
			s := Server{Transport: dissect.RC, MaxQPs: 4, New: func(Via, net.Addr) (Application, error) { return app, nil }}
			var err error
			if overCM {
				err = s.AnswerOverCM(stream, nil)
			} else {
				err = s.Answer(stream, nil)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if len(app.remotes) > 4 || app.closed > 1 || len(app.remotes) > 0 && app.closed != 1 {
				t.Errorf("%d opened, closed %d times", len(app.remotes), app.closed)
			}
			for i := range app.remotes {
				if err := app.remotes[i].Check(); err != nil || !app.remotes[i].Address.IsValid() {
					t.Errorf("opened for %+v: %v", app.remotes[i], err)
				}
			}
		}
		// What clients hear is no better.
		_, _ = NewExchange(&script{pieces: []string{string(says)}}, 0).Offer(ownQPs(1))
		_, _ = Pingpong(&script{pieces: []string{string(says)}}, 0, ownQPs(1)[0])
		if p, err := NewPerftest(&script{pieces: []string{string(says)}}, PerftestOptions{Program: "ib_send_bw", Duplex: true}); err == nil {
			if _, err := p.Keys(ownQPs(2)); err == nil && p.Ready() == nil {
				_, _ = p.Finish(PerftestResults{})
			}
		}
		if p, err := ParseParameters(string(says), Parameters{}); err == nil {
			if q, err := ParseParameters(p.String(), Parameters{}); err != nil || p != q {
				t.Errorf("%q becomes %q: %v", says, p.String(), err)
			}
		}
	})
}

// FuzzMAD plays a script of CM messages, damaged or not, and of what the application does, to a CM with connections in several
// states: nothing panics, the table keeps its bounds and its books, and when all time-outs are over nothing is left but what
// is established.
//
// A script is steps of three bytes: what, and two that it needs; a REQ, REP, … takes bytes to damage behind them.
func FuzzMAD(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 0, 0, 2, 0, 0})
	f.Add([]byte{0, 1, 0, 0, 1, 0, 9, 0, 0, 3, 0, 0, 4, 0, 0, 8, 200, 0})
	f.Add([]byte{12, 0, 0, 0, 3, 0, 10, 0, 0, 5, 0, 0, 6, 1, 7, 11, 0, 0, 7, 40, 200})
	f.Fuzz(func(t *testing.T, script []byte) { playCM(t, script) })
}

func playCM(t *testing.T, script []byte) {
	us := newHost(t, func(c *CMConfig) { c.MaxPending, c.MaxConnections = 3, 8 })
	us.on = func(Event) { us.sent = us.sent[:0] }
	must(t, us.Listen(rpingService))
	must(t, us.ListenSIDR(rpingService+1, func(SIDRRequest) SIDRAnswer { return SIDRAnswer{QPN: 9} }))
	// them says messages that fit what is there: the identifiers are right where there are any.
	them := newHost(t, func(c *CMConfig) { c.Rand = rand.NewPCG(8, 8) })
	back := dissect.Outer{DstMAC: pathAB.DstMAC, SrcMAC: pathAB.SrcMAC, Src: addrA, Dst: addrB}
	forth := dissect.Outer{DstMAC: pathAB.SrcMAC, SrcMAC: pathAB.DstMAC, Src: addrB, Dst: addrA}
	now := int64(0)
	ids := func(n byte) (ConnID, *cmConn) {
		var all []ConnID
		for id := range us.table.byID {
			all = append(all, id)
		}
		if len(all) == 0 {
			return 0, nil
		}
		slices.Sort(all)
		id := all[int(n)%len(all)]
		return id, us.table.byID[id]
	}
	for ; len(script) >= 3; script = script[3:] {
		what, x, y := script[0]%14, script[1], script[2]
		id, c := ids(x)
		if attr := dissect.CMAttrREQ + dissect.CMAttribute(what); what <= 10 { // REQ … APR
			data := them.compose(&back, attr, uint64(x))
			switch {
			case attr == dissect.CMAttrREQ:
				req := dissect.CMREQ(data)
				req.SetLocalCommID(uint32(x) + 1)
				req.SetServiceID(rpingService)
				req.SetLocalQPN(uint32(x) + 2)
				req.SetMTU(3)
				req.IPCM().SetIPVersion(4)
			case attr == dissect.CMAttrSIDRREQ:
				dissect.CMSIDRREQ(data).SetServiceID(rpingService + 1)
			case c != nil:
				be.PutUint32(data, c.remoteID)
				be.PutUint32(data[4:], c.id)
				switch attr {
				case dissect.CMAttrREP:
					dissect.CMREP(data).SetLocalQPN(uint32(x) + 2)
					dissect.CMREP(data).SetLocalCommID(uint32(x) + 1)
				case dissect.CMAttrDREQ:
					dissect.CMDREQ(data).SetRemoteQPN(c.local.QPN)
				case dissect.CMAttrSIDRREP:
					be.PutUint32(data, c.id)
					dissect.CMSIDRREP(data).SetQPN(7)
				}
			}
			if y > 0 {
				data[int(y)%len(data)] ^= x | 1
			}
			them.emit(&back)
			frame := them.take()[0]
			us.Handle(frame, now)
			us.Handle(frame[:int(x)*int(y)%len(frame)], now)
			continue
		}
		switch what {
		case 11: // the application acts
			switch y % 6 {
			case 0:
				_ = us.Accept(now, id, Answer{Local: Parameters{QPN: 5 + uint32(x)}})
			case 1:
				_ = us.Reject(now, id, dissect.RejConsumer, nil)
			case 2:
				_ = us.Confirm(now, id, nil)
			case 3:
				_ = us.Disconnect(now, id, nil)
			case 4:
				us.Arrived(now, id)
			case 5:
				_, _ = us.Resolve(now, Request{Path: forth, Service: rpingService})
			}
		case 12:
			_, _ = us.Connect(now, Request{Path: forth, Service: rpingService, Local: Parameters{Transport: dissect.RC, QPN: 2 + uint32(y)}})
		case 13:
			now += int64(x) << (y % 32)
			us.Tick(now)
		}
		s := us.Stats()
		pending := 0
		for _, c := range us.table.byID {
			if c.pending {
				pending++
			}
		}
		if s.Pending != pending || s.Pending > 3 || s.Connections > 8 || len(us.table.byRemote) > 8 || len(us.table.byQPN) > 8 || len(us.table.heap) > 8 {
			t.Fatalf("%+v, %d pending, %d and %d indexed, %d in the heap", s, pending, len(us.table.byRemote), len(us.table.byQPN), len(us.table.heap))
		}
	}
	for next := us.Tick(now); next != never; next = us.Tick(next) {
	}
	for _, c := range us.table.byID {
		if c.state != StateEstablished {
			t.Fatalf("%v is left", c.state)
		}
	}
	if len(us.table.byQPN) > len(us.table.byID) || len(us.table.byRemote) > len(us.table.byID) {
		t.Fatal("indexes outlive connections")
	}
}

// FuzzHost gives a host and a resolver any frame: an answer is a sound frame to who asked, and never itself a question.
func FuzzHost(f *testing.F) {
	a := newAsker(100)
	must(f, a.Ask(0, addrB))
	must(f, a.Ask(0, ip6B))
	for _, q := range append(a.sent, echo(addrA, addrB), echo(ip6A, ip6B)) {
		f.Add(q)
		f.Add(hostB.Answer(nil, q))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		r := newAsker()
		must(t, r.Ask(0, addrB))
		must(t, r.Ask(0, ip6B))
		r.Handle(frame)
		answer := hostB.Answer(nil, frame)
		if len(answer) == 0 {
			return
		}
		if len(answer) < 60 || [6]byte(answer[6:12]) != hostB.MAC || len(answer) > len(frame)+60 {
			t.Errorf("%x\nanswered by\n%x", frame, answer)
		}
		asker := &Host{MAC: [6]byte(answer[:6]), Addrs: append(slices.Clone(hostA.Addrs), hostB.Addrs...)}
		if again := asker.Answer(nil, answer); len(again) > 0 {
			t.Errorf("%x\nanswers the answer\n%x", again, answer)
		}
	})
}
