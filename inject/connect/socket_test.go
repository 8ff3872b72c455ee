package connect

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// script is a Stream that says what it is told to, piece by piece, then hangs up or goes silent.
type script struct {
	pieces    []string
	silent    bool // at the end, until the deadline
	deadlines int
	endless   bool // without a deadline at the end: the wait would have no end
	heard     bytes.Buffer
	limited   bool
}

func (s *script) SetDeadline(d time.Time) error {
	s.deadlines++
	s.limited = !d.IsZero()
	return nil
}
func (s *script) Write(b []byte) (int, error) { return s.heard.Write(b) }
func (s *script) Read(b []byte) (int, error) {
	if len(s.pieces) == 0 {
		if !s.silent {
			return 0, io.EOF
		}
		s.endless = !s.limited
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(b, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; s.pieces[0] == "" {
		s.pieces = s.pieces[1:]
	}
	return n, nil
}

// testApp makes queue pairs of its own.
type testApp struct {
	remotes []Parameters
	ready   []int
	told    PerftestResults
	closed  int
	err     error
	refuse  error
}

func (a *testApp) Open(remote Parameters) (Parameters, error) {
	a.remotes = append(a.remotes, remote)
	return Parameters{
		Transport: remote.Transport, Address: addrB, QPN: 0x200 + uint32(len(a.remotes)), PSN: 0x654321, MTU: remote.MTU, ResponderResources: 16,
		Memory: Memory{0xBEEF, 0x7F0000000000, 1 << 20},
	}, a.refuse
}
func (a *testApp) Ready(n int) error        { a.ready = append(a.ready, n); return nil }
func (a *testApp) Results() PerftestResults { return PerftestResults{Average: 2.5} }
func (a *testApp) Told(r PerftestResults)   { a.told = r }
func (a *testApp) Closed(err error)         { a.closed++; a.err = err }

// serve starts a server on a port of its own. Its conversations share an application, unless the server makes its own.
func serve(t *testing.T, s Server) (*testApp, string) {
	t.Helper()
	app := &testApp{}
	if s.New == nil {
		s.New = func(Via, net.Addr) (Application, error) { return app, nil }
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return app, l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func ownQPs(n int) (qps []Parameters) {
	for i := range n {
		qps = append(qps, Parameters{
			Transport: dissect.RC, Address: addrA, QPN: 0x100 + uint32(i), PSN: 0x123456, MTU: 2048, ResponderResources: 4, InitiatorDepth: 3, AckTimeout: 14,
			RetryCount: 7, RNRRetryCount: 6, Memory: Memory{0xCAFE, 0xFFFF_FFFF_FFFF_F000, 4096},
		})
	}
	return qps
}

// TestPrograms lets our client talk to our server for each of perftest's programs, one way and both ways.
func TestPrograms(t *testing.T) {
	for program, sc := range perftestScripts {
		for _, duplex := range []bool{false, true} {
			if duplex && sc.beforeDuplex == "" {
				continue
			}
			name := program
			if duplex {
				name += " -b"
			}
			t.Run(name, func(t *testing.T) {
				app, addr := serve(t, Server{Transport: dissect.RC, MTU: 1024})
				c := dial(t, addr)
				p, err := NewPerftest(c, PerftestOptions{Program: program, Duplex: duplex, Transport: dissect.RC, MTU: 4096})
				must(t, err)
				remote, err := p.Keys(ownQPs(3))
				must(t, err)
				must(t, p.Ready())
				results, err := p.Finish(PerftestResults{Size: 64, Iterations: 1000, Average: 1.5})
				must(t, err)
				for script := sc.after + sc.afterDuplex; strings.Contains(script, "D"); script = "" { // the server ends it as well
					b, err := io.ReadAll(c)
					if err != nil || string(b) != doneText {
						t.Errorf("%q, %v", b, err)
					}
				}
				if p.MTU != 1024 || len(remote) != 3 || remote[2].QPN != 0x203 || remote[2].Memory != (Memory{RKey: 0xBEEF, VA: 0x7F0000000000}) {
					t.Errorf("MTU %d, %+v", p.MTU, remote)
				}
				if swaps := strings.Contains(p.after+sc.after, "R") || duplex; swaps && (results.Average != 2.5 || app.told != PerftestResults{Size: 64, Iterations: 1000, Average: 1.5}) {
					t.Errorf("results %+v and %+v", results, app.told)
				}
			})
		}
	}
}

func TestExchange(t *testing.T) {
	app, addr := serve(t, Server{MTU: 1024})
	x := NewExchange(dial(t, addr), 0)
	own := ownQPs(2)
	remote, err := x.Offer(own)
	must(t, err)
	must(t, x.Ready())
	must(t, x.Ready())
	must(t, x.Done())
	if len(remote) != 2 || remote[1].Memory != (Memory{0xBEEF, 0x7F0000000000, 1 << 20}) || remote[1].MTU != 1024 || remote[1].QPN != 0x202 {
		t.Errorf("%+v", remote)
	}
	own[1].MTU = 1024 // as agreed on
	if !slices.Equal(app.ready, []int{1, 2}) || app.remotes[1] != own[1] {
		t.Errorf("ready %v, told\n%+v, want\n%+v", app.ready, app.remotes[1], own[1])
	}
}

func TestExchangeRefused(t *testing.T) {
	app := &testApp{refuse: errors.New("no more memory")}
	a, b := net.Pipe()
	done := make(chan error)
	s := Server{New: func(Via, net.Addr) (Application, error) { return app, nil }}
	go func() { done <- s.Answer(b, nil) }()
	_, err := NewExchange(a, 0).Offer(ownQPs(1))
	if err == nil || !strings.Contains(err.Error(), "no more memory") {
		t.Errorf("the client is told %v", err)
	}
	if err := <-done; !errors.Is(err, app.refuse) || app.closed != 1 || !errors.Is(app.err, app.refuse) {
		t.Errorf("the server has %v, closed %d times by %v", err, app.closed, app.err)
	}
}

const goodOffer = `{"rocescope":1,"transport":"RC","mtu":1024,"qps":[{"address":"10.0.0.1","qpn":"0x11","psn":"0x0"}]}` + "\n"

// TestServerGarbage: whatever comes, one clear error, and no wait without an end.
func TestServerGarbage(t *testing.T) {
	version := "6.06" + strings.Repeat("\x00", 12)
	preamble := version + "\x00\x00\x10\x00" + "\x00\x00\x00\x40" + "3\x00"
	key := string(appendKey(nil, &Parameters{Address: addrA, QPN: 0x11}))
	other := func(from, to string) string { return strings.Replace(goodOffer, from, to, 1) }
	for _, c := range []struct {
		name, says, want string
		is               error
	}{
		{"nothing", "", "first words", ErrHungUp},
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", `"GET /"`, ErrGarbage},
		{"cut", "6.0", "after 3 bytes", ErrHungUp},
		{"a version of letters", "6.x6\x00" + strings.Repeat("\x00", 11), "version", ErrGarbage},
		{"no number", "6.NaN" + strings.Repeat("\x00", 11), "version", ErrGarbage},
		{"an old perftest", "5.33\x00" + strings.Repeat("\x00", 11), "5.70 or newer", nil},
		{"no MTU", version + "\x00\x00\x10\x00" + "\x00\x00\x00\x40" + "9\x00", "path MTU", ErrGarbage},
		{"hung up before the keys", preamble, "key message", ErrHungUp},
		{"no key", preamble + strings.Repeat("x", 200), "key message", ErrGarbage},
		{"results first", preamble + "\x00\x00\x00\x00\x00\x00\x00\x01", "key message", ErrGarbage},
		{"QP 0", preamble + strings.Replace(key, ":000011:", ":000000:", 1), "QP", ErrGarbage},
		{"no GID", preamble + strings.Replace(key, "ff:ff:0a:00:00:01", "00:00:00:00:00:00", 1), "GID", ErrGarbage},
		{"more results than there are", preamble + key + key + strings.Repeat("\x00\x00\x00\x00\x00\x00\x00\x01", 10), "key message", ErrGarbage},
		{"a pingpong without a GID", "0000:000011:000000:" + strings.Repeat("0", 32) + "\x00", "GID", ErrGarbage},
		{"a pingpong that stops", "0000:000011:000000:" + strings.Repeat("0", 31) + "1\x00", "done", ErrHungUp},
		{"a pingpong that says more", "0000:000011:000000:" + strings.Repeat("0", 31) + "1\x00" + "dance", "done", ErrGarbage},
		{"JSON cut", goodOffer[:40], "queue pairs", ErrHungUp},
		{"other JSON", "{\"hello\":1}\n", "rocescope", ErrGarbage},
		{"no JSON", "{{{{{\n", "rocescope", ErrGarbage},
		{"a newer exchange", other(`"rocescope":1`, `"rocescope":2,"x":3`), "version 2", nil},
		{"an unknown field", other(`"mtu":1024`, `"mtu":1024,"mut":3`), "mut", ErrGarbage},
		{"a number where text is due", other(`"0x11"`, `17`), "qpn", ErrGarbage},
		{"a QPN of 25 bits", other(`"0x11"`, `"0x1000011"`), "24", ErrGarbage},
		{"QP 1", other(`"0x11"`, `"0x1"`), "QP", ErrGarbage},
		{"MTU 1000", other(`1024`, `1000`), "mtu 1000", ErrGarbage},
		{"MTU 8192", other(`1024`, `8192`), "mtu 8192", ErrGarbage},
		{"transport RD", other(`"RC"`, `"RD"`), "transport", ErrGarbage},
		{"no queue pairs", other(`{"address":"10.0.0.1","qpn":"0x11","psn":"0x0"}`, ``), "0 queue pairs", ErrGarbage},
		{"no address", other(`"10.0.0.1"`, `""`), "address", ErrGarbage},
		{"a multicast address", other(`10.0.0.1`, `224.0.0.1`), "one station", ErrGarbage},
		{"memory beyond the end", other(`"psn":"0x0"`, `"psn":"0x0","memory":{"rkey":"0x1","va":"0xffffffffffffffff","length":2}`), "64 bits", ErrGarbage},
		{"two objects", strings.TrimSuffix(goodOffer, "\n") + "{}\n", "JSON", ErrGarbage},
		{"done before ready, then no end", goodOffer + "{\"rocescope\":1,\"error\":\"out of ideas\"}\n", "out of ideas", nil},
		{"an offer again", goodOffer + goodOffer, "another line", ErrGarbage},
		{"a line without an end", "{" + strings.Repeat(" ", maxLine), "a line of more than", ErrGarbage},
	} {
		t.Run(c.name, func(t *testing.T) {
			app := &testApp{}
			s := Server{New: func(Via, net.Addr) (Application, error) { return app, nil }}
			err := s.Answer(&script{pieces: []string{c.says}}, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) || len(err.Error()) > 500 {
				t.Errorf("%v, want %q and %v", err, c.want, c.is)
			}
			if app.closed > 1 || app.closed == 1 && !errors.Is(app.err, err) {
				t.Errorf("closed %d times, by %v", app.closed, app.err)
			}
		})
	}
}

// TestServerSilence: who goes silent where something is due is given up; while the traffic runs, as told.
func TestServerSilence(t *testing.T) {
	whole := "6.06" + strings.Repeat("\x00", 12) + "\x00\x00\x10\x00" + "\x00\x00\x00\x40" + "3\x00" + string(appendKey(nil, &Parameters{Address: addrA, QPN: 0x11}))
	for i := range len(whole) {
		s := Server{New: func(Via, net.Addr) (Application, error) { return &testApp{}, nil }}
		stream := &script{pieces: []string{whole[:i]}, silent: true}
		if i == 0 {
			stream.pieces = nil
		}
		if err := s.Answer(stream, nil); !errors.Is(err, ErrSilent) || stream.endless {
			t.Fatalf("silent after %d bytes: %v, without an end %t", i, err, stream.endless)
		}
	}
	whole += whole[26:] // ready
	for _, idle := range []time.Duration{0, time.Hour} {
		stream := &script{pieces: []string{whole}, silent: true}
		s := Server{Idle: idle, New: func(Via, net.Addr) (Application, error) { return &testApp{}, nil }}
		if err := s.Answer(stream, nil); !errors.Is(err, ErrSilent) || stream.endless != (idle == 0) {
			t.Errorf("idle %v: %v, without an end %t", idle, err, stream.endless)
		}
	}
	// Byte by byte a message gets no more time than whole.
	slow := &script{pieces: strings.Split(whole, ""), silent: true}
	fast := &script{pieces: []string{whole}, silent: true}
	s := Server{New: func(Via, net.Addr) (Application, error) { return &testApp{}, nil }}
	_, _ = s.Answer(slow, nil), s.Answer(fast, nil)
	if slow.deadlines != fast.deadlines {
		t.Errorf("%d deadlines byte by byte, %d whole", slow.deadlines, fast.deadlines)
	}
}

// TestServerLimit: beyond the limit connections are closed at once, and those that are held live on.
func TestServerLimit(t *testing.T) {
	failed := make(chan error, 1)
	_, addr := serve(t, Server{Limit: 1, MTU: 1024, Failed: func(_ net.Addr, err error) { failed <- err }})
	first := NewExchange(dial(t, addr), 0)
	_, err := first.Offer(ownQPs(1))
	must(t, err)
	b, err := io.ReadAll(dial(t, addr))
	if len(b) != 0 || err != nil && !errors.Is(err, net.ErrClosed) {
		t.Errorf("the second hears %q, %v", b, err)
	}
	if err := <-failed; !strings.Contains(err.Error(), "1 conversations already") {
		t.Error(err)
	}
	must(t, first.Ready())
	must(t, first.Done())
}

// TestServerHalfOpenSockets: of a crowd that connects and stays silent, as many are kept as are allowed and the rest is sent away; memory
// is bounded by that, and there is room again when they go.
func TestServerHalfOpenSockets(t *testing.T) {
	const limit, crowd = 16, 600
	refused := make(chan error, crowd)
	_, addr := serve(t, Server{
		Limit: limit, Patience: time.Hour, Failed: func(_ net.Addr, err error) { refused <- err },
		New: func(Via, net.Addr) (Application, error) { return &testApp{}, nil },
	})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	half := make([]byte, maxLine/2)
	half[0] = '{'
	var kept []net.Conn
	for range crowd {
		c, err := net.Dial("tcp", addr)
		must(t, err)
		defer c.Close()
		if kept = append(kept, c); len(kept) <= limit {
			_, err = c.Write(half) // the first words of a line that does not end
			must(t, err)
		}
	}
	for range crowd - limit {
		if err := <-refused; !strings.Contains(err.Error(), "16 conversations already") {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > limit*4*maxLine+crowd*4096 {
		t.Errorf("%d bytes are kept for %d who said half a line", grown, limit)
	}
	for _, c := range kept[:limit] {
		must(t, c.Close())
	}
	for range limit {
		if err := <-refused; !errors.Is(err, ErrHungUp) {
			t.Errorf("hung up in the middle of a line: %v", err)
		}
	}
	x := NewExchange(dial(t, addr), 0)
	_, err := x.Offer(ownQPs(1))
	must(t, err)
	must(t, x.Ready())
	must(t, x.Done())
}

// TestServerTellsFailures: garbage is told though nobody was asked for a queue pair.
func TestServerTellsFailures(t *testing.T) {
	failed := make(chan error, 1)
	_, addr := serve(t, Server{Failed: func(_ net.Addr, err error) { failed <- err }})
	_, err := dial(t, addr).Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	must(t, err)
	if err := <-failed; !errors.Is(err, ErrGarbage) {
		t.Error(err)
	}
}

func TestServerMaxQPs(t *testing.T) {
	app := &testApp{}
	s := Server{MaxQPs: 2, New: func(Via, net.Addr) (Application, error) { return app, nil }}
	says := "6.06" + strings.Repeat("\x00", 12) + "\x00\x00\x10\x00" + "\x00\x00\x00\x40" + "3\x00"
	for i := range uint32(3) {
		says += string(appendKey(nil, &Parameters{Address: addrA, QPN: 0x11 + i}))
	}
	if err := s.Answer(&script{pieces: []string{says}}, nil); err == nil || !strings.Contains(err.Error(), "2 queue pairs already") || len(app.remotes) != 2 {
		t.Errorf("%v after %d", err, len(app.remotes))
	}
}

// TestServerAllSizes: with -a -b there are "ready" and results of each size.
func TestServerAllSizes(t *testing.T) {
	app := &testApp{}
	s := Server{New: func(Via, net.Addr) (Application, error) { return app, nil }}
	key := string(appendKey(nil, &Parameters{Address: addrA, QPN: 0x11}))
	says := "6.06" + strings.Repeat("\x00", 12) + "\x00\x00\x10\x00" + "\x00\x00\x00\x40" + "3\x00" + key + key + key
	for size := range byte(23) {
		says += key + key + strings.Repeat("\x00\x00\x00\x00\x00\x00\x00"+string(rune(size)), 5)
	}
	stream := &script{pieces: []string{says + key + doneText}}
	must(t, s.Answer(stream, nil))
	if app.told.Size != 22 || len(app.ready) != 2+2*23+1 || !strings.HasSuffix(stream.heard.String(), doneText) {
		t.Errorf("told %+v, ready %d", app.told, len(app.ready))
	}
}

// shortListener has no room for the first connections.
type shortListener struct {
	net.Listener
	short int
}

func (l *shortListener) Accept() (net.Conn, error) {
	if l.short > 0 {
		l.short--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

func TestServerOutlivesShortage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := Server{New: func(Via, net.Addr) (Application, error) { return &testApp{}, nil }}
	done := make(chan error)
	go func() { done <- s.Serve(&shortListener{l, 2}) }()
	x := NewExchange(dial(t, l.Addr().String()), 0)
	_, err = x.Offer(ownQPs(1))
	must(t, err)
	l.Close()
	must(t, <-done)
}

func TestClientsAgainstGarbage(t *testing.T) {
	preamble := "6.06" + strings.Repeat("\x00", 12) + "\x00\x00\x10\x00" + "\x00\x00\x00\x40" + "3\x00"
	key := func(qpn uint32) string { return string(appendKey(nil, &Parameters{Address: addrB, QPN: qpn})) }
	_, err := NewPerftest(&script{pieces: []string{"SSH-2.0-server and so on"}}, PerftestOptions{Program: "ib_write_bw"})
	if !errors.Is(err, ErrGarbage) {
		t.Error(err)
	}
	if _, err := NewPerftest(&script{}, PerftestOptions{Program: "ib_fly"}); err == nil {
		t.Error("a program that is none")
	}
	if _, err := NewPerftest(&script{}, PerftestOptions{Program: "ib_write_lat", Duplex: true}); err == nil {
		t.Error("latency both ways")
	}
	p, err := NewPerftest(&script{pieces: []string{preamble + key(5) + key(6)}}, PerftestOptions{Program: "ib_write_bw", Transport: dissect.RC})
	must(t, err)
	if _, err := p.Keys(ownQPs(1)); err != nil {
		t.Error(err)
	}
	if err := p.Ready(); !errors.Is(err, ErrGarbage) {
		t.Errorf("a QPN that changes: %v", err)
	}
	if _, err := Pingpong(&script{pieces: []string{"what?"}}, 0, ownQPs(1)[0]); !errors.Is(err, ErrHungUp) {
		t.Error(err)
	}
	for _, c := range []string{
		goodOffer[:len(goodOffer)-2],
		strings.Replace(goodOffer, "1024", "4096", 1), // more than was offered
		strings.Replace(goodOffer, "RC", "UC", 1),
		`{"rocescope":1,"ready":true}` + "\n",
	} {
		if _, err := NewExchange(&script{pieces: []string{c}}, 0).Offer(ownQPs(1)); err == nil {
			t.Errorf("%s is taken", c)
		}
	}
}

func TestParseParameters(t *testing.T) {
	base := Parameters{MTU: 1024, RetryCount: 7}
	p, err := ParseParameters("qpn=0x11, psn=0x1b4c55,rkey=0x1234,va=0x7f0000001000,length=1048576,mtu=2048,addr=fd77::2,transport=UC,rnr=6,timeout=14,responder=16,initiator=8,qkey=0x11111111,pkey=0x8001,flow=0x4e827", base)
	must(t, err)
	want := Parameters{
		Transport: dissect.UC, Address: netip.MustParseAddr("fd77::2"), QPN: 0x11, PSN: 0x1B4C55, MTU: 2048, PKey: 0x8001, QKey: 0x11111111, FlowLabel: 0x4E827,
		ResponderResources: 16, InitiatorDepth: 8, AckTimeout: 14, RetryCount: 7, RNRRetryCount: 6, Memory: Memory{0x1234, 0x7F0000001000, 1 << 20},
	}
	if p != want {
		t.Errorf("%+v", p)
	}
	if q, err := ParseParameters(p.String(), Parameters{}); err != nil || q != p {
		t.Errorf("%s: %+v, %v", p, q, err)
	}
	for text, want := range map[string]string{
		"":                                     "KEY=VALUE",
		"qpn":                                  "KEY=VALUE",
		"psn=1":                                "no qpn",
		"qpn=0x1":                              "management",
		"qpn=0xffffff":                         "multicast",
		"qpn=0x1000000":                        "24 bits",
		"qpn=-5":                               "24 bits",
		"qpn=2,qpn=3":                          "twice",
		"qpn=2,mtu=1000":                       "path MTUs",
		"qpn=2,mtu=70000":                      "16 bits",
		"qpn=2,retry=8":                        "3 bits",
		"qpn=2,addr=host":                      "address",
		"qpn=2,addr=fe80::1%eth0":              "address",
		"qpn=2,transport=rd":                   "rc, uc or ud",
		"qpn=2,color=red":                      "no such key",
		"qpn=2,va=0x10000000000000000":         "64 bits",
		"qpn=2,va=0xffffffffffffffff,length=2": "beyond",
		"qpn=2,va=0X":                          "64 bits",
	} {
		if _, err := ParseParameters(text, base); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestServerEnds: with the listener the conversations end, even those that wait for nothing but traffic's end.
func TestServerEnds(t *testing.T) {
	ready := make(chan struct{})
	s := Server{New: func(Via, net.Addr) (Application, error) { return &endApp{ready: ready}, nil }}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	x := NewExchange(dial(t, l.Addr().String()), 0)
	_, err = x.Offer(ownQPs(1))
	must(t, err)
	must(t, x.Ready())
	<-ready
	l.Close()
	must(t, <-done)
	if err := x.Ready(); !errors.Is(err, ErrHungUp) {
		t.Errorf("the client has %v", err)
	}
}

type endApp struct {
	testApp
	ready chan struct{}
}

func (a *endApp) Ready(n int) error {
	if n == 1 {
		close(a.ready)
	}
	return nil
}
