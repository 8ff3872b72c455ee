package connect

import (
	"bytes"
	"errors"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// utterance is what one side of a captured conversation said in one go.
type utterance struct {
	client bool
	data   []byte
}

// tcpTranscript is the conversation on perftest's port.
func tcpTranscript(t testing.TB, name string) (out []utterance) {
	t.Helper()
	next := map[bool]uint32{}
	for _, f := range testkit.ReadCapture(t, filepath.Join(testkit.RXE(t), name+".pcap")) {
		var d dissect.Decoder
		var p dissect.Packet
		d.Decode(f.Link, f.Data, f.WireLen, &p)
		if !p.Has(dissect.LayerTCP) || p.SrcPort != PerftestPort && p.DstPort != PerftestPort {
			continue
		}
		client := p.DstPort == PerftestPort
		if p.TCPFlags&dissect.TCPSyn != 0 {
			next[client] = p.TCPSeq + 1
			continue
		}
		data := p.Payload(f.Data)
		if old := int32(next[client] - p.TCPSeq); len(data) > 0 && old < int32(len(data)) {
			data = data[max(old, 0):]
			next[client] += uint32(len(data))
			out = append(out, utterance{client, slices.Clone(data)})
		}
	}
	return out
}

// cmTranscript is the conversation over the queue pairs that were connected first.
func cmTranscript(t testing.TB, name string) (out []utterance) {
	t.Helper()
	var client dissect.Addr
	var qpn [2]uint32
	seen := map[dissect.Addr]dissect.PSN{}
	for _, f := range testkit.ReadCapture(t, filepath.Join(testkit.RXE(t), name+".pcap")) {
		var d dissect.Decoder
		var p dissect.Packet
		d.Decode(f.Link, f.Data, f.WireLen, &p)
		if m, ok := p.CM(f.Data); ok {
			switch {
			case m.Attribute == dissect.CMAttrREQ && qpn[0] == 0:
				client, qpn[0] = p.Src, dissect.CMREQ(m.Data).LocalQPN()
			case m.Attribute == dissect.CMAttrREP && qpn[1] == 0:
				qpn[1] = dissect.CMREP(m.Data).LocalQPN()
			}
			continue
		}
		fromClient := p.Src == client
		to := qpn[0]
		if fromClient {
			to = qpn[1]
		}
		if last, any := seen[p.Src]; !p.IsTransport() || p.Opcode != dissect.OpRCSendOnly || p.DestQP != to || any && !p.PSN.After(last) {
			continue
		}
		seen[p.Src] = p.PSN
		out = append(out, utterance{fromClient, slices.Clone(p.Payload(f.Data))})
	}
	return out
}

// actor plays one side of a transcript against ours: it says the next thing only when ours has said all that it had heard by
// then in the capture.
type actor struct {
	lines    []utterance
	client   bool // which side it plays
	messages bool // each Read is one message
	heard    []byte
	pieces   [][]byte // … as they were written
	rest     []byte
	said     int // lines
	needed   int // bytes that the other side had said by then
}

func (a *actor) SetDeadline(time.Time) error { return nil }

func (a *actor) Write(b []byte) (int, error) {
	a.heard = append(a.heard, b...)
	a.pieces = append(a.pieces, slices.Clone(b))
	return len(b), nil
}

func (a *actor) Read(b []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.said == len(a.lines) {
			return 0, io.EOF
		}
		l := a.lines[a.said]
		a.said++
		if l.client != a.client {
			if string(l.data) != doneText { // either side may say it first
				a.needed += len(l.data)
			}
			continue
		}
		if len(a.heard) < a.needed {
			return 0, errors.New("the side under test waits for what it has to say first")
		}
		a.rest = l.data
	}
	n := copy(b, a.rest)
	if a.rest = a.rest[n:]; a.messages && len(a.rest) > 0 {
		return n, errors.New("a message is longer than what was waited for")
	}
	return n, nil
}

// said is all that one side of a transcript said.
func saidBy(lines []utterance, client bool) (all []byte, pieces [][]byte) {
	for _, l := range lines {
		if l.client == client {
			all, pieces = append(all, l.data...), append(pieces, l.data)
		}
	}
	return all, pieces
}

// keysIn are the queue pairs that one side told, each once, and the results.
func keysIn(t testing.TB, lines []utterance, client bool, form keyForm) (keys []Parameters, results PerftestResults) {
	t.Helper()
	all, pieces := saidBy(lines, client)
	if form.size == keySize { // TCP has no messages
		pieces = nil
		for rest := all[26:]; len(rest) > 0; {
			n := 8
			switch {
			case bytes.HasPrefix(rest, []byte(doneText)):
				n = 5
			case fits(keyShape, rest):
				n = keySize
			}
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
	}
	number := 0
	for _, b := range pieces {
		switch {
		case len(b) == 8:
			results.set(number, be.Uint64(b))
			number++
		case len(b) == form.size && !slices.Equal(b, make([]byte, len(b))):
			k, err := form.parse(b)
			must(t, err)
			if form.size == keySize { // the address of a test of SENDs is told and means nothing
				k.Memory.VA = hexAt(b, 33, 16)
			} else {
				k.Memory.VA = be.Uint64(b[24:])
			}
			if !slices.ContainsFunc(keys, func(o Parameters) bool { return o.QPN == k.QPN }) {
				keys = append(keys, k)
			}
		}
	}
	return keys, results
}

// replayApp gives the queue pairs of a capture.
type replayApp struct {
	t       testing.TB
	keys    []Parameters
	results PerftestResults
	opened  []Parameters
	told    PerftestResults
	ready   int
	closed  bool
	err     error
}

func (a *replayApp) Open(remote Parameters) (Parameters, error) {
	a.opened = append(a.opened, remote)
	if len(a.opened) > len(a.keys) {
		return Parameters{}, errors.New("more queue pairs than in the capture")
	}
	return a.keys[len(a.opened)-1], nil
}
func (a *replayApp) Ready(n int) error        { a.ready = n; return nil }
func (a *replayApp) Results() PerftestResults { return a.results }
func (a *replayApp) Told(r PerftestResults)   { a.told = r }
func (a *replayApp) Closed(err error)         { a.closed, a.err = true, err }

var perftestCommand = regexp.MustCompile(`\b(ib_(?:write|read|send|atomic)_(?:bw|lat)) (.*)`)

// perftestCaptures are the captures of perftest: the program, and its other arguments.
func perftestCaptures(t testing.TB) map[string][2]string {
	t.Helper()
	out := map[string][2]string{}
	for _, e := range testkit.RXEManifest(t).Captures {
		for _, run := range e.Client.Runs {
			if m := perftestCommand.FindStringSubmatch(run.Command); m != nil && !strings.Contains(e.File, "iwarp") {
				out[strings.TrimSuffix(e.File, ".pcap")] = [2]string{m[1], " " + m[2] + " "}
			}
		}
	}
	return out
}

// TestPerftestReplay plays every capture of perftest, with our server and with our client in the place of the real one: ours
// says byte for byte what the real one said.
func TestPerftestReplay(t *testing.T) {
	played := 0
	for name, c := range perftestCaptures(t) {
		program, args := c[0], c[1]
		overCM := strings.Contains(args, " -R ") || strings.Contains(args, " -z ")
		lines, form := []utterance(nil), textKeys
		if overCM {
			lines, form = cmTranscript(t, name), binaryKeys
		} else {
			lines = tcpTranscript(t, name)
		}
		transport := dissect.RC
		for _, tr := range []dissect.Transport{dissect.UC, dissect.UD} {
			if strings.Contains(args, " -c "+tr.String()+" ") {
				transport = tr
			}
		}
		mtu := 1024
		for _, m := range []string{"256", "512", "4096"} {
			if strings.Contains(args, " -m "+m+" ") {
				mtu = map[string]int{"256": 256, "512": 512, "4096": 4096}[m]
			}
		}
		clientKeys, clientResults := keysIn(t, lines, true, form)
		serverKeys, serverResults := keysIn(t, lines, false, form)
		played++
		t.Run(name+"/server", func(t *testing.T) {
			app := &replayApp{t: t, keys: serverKeys, results: serverResults}
			s := Server{Transport: transport, MTU: mtu, New: func(via Via, _ net.Addr) (Application, error) {
				if via != ViaPerftest {
					t.Errorf("taken for %v", via)
				}
				return app, nil
			}}
			peer := &actor{lines: lines, client: true, messages: overCM}
			answer := s.Answer
			if overCM {
				answer = s.AnswerOverCM
			}
			if err := answer(peer, nil); err != nil || !app.closed || app.err != nil {
				t.Fatalf("%v; closed %t %v", err, app.closed, app.err)
			}
			compare(t, peer, lines, false)
			if len(app.opened) != len(clientKeys) || app.told != clientResults || app.ready == 0 {
				t.Errorf("%d queue pairs of %d, results %+v, ready %d", len(app.opened), len(clientKeys), app.told, app.ready)
			}
			for i, p := range app.opened {
				if k := clientKeys[i]; p.QPN != k.QPN || p.PSN != k.PSN || p.Address != k.Address || p.MTU != mtu || p.Transport != transport || p.Check() != nil {
					t.Errorf("queue pair %d: %+v", i, p)
				}
			}
		})
		t.Run(name+"/client", func(t *testing.T) {
			peer := &actor{lines: lines, client: false, messages: overCM}
			p, err := NewPerftest(peer, PerftestOptions{Program: program, Duplex: strings.Contains(args, " -b "), OverCM: overCM, Transport: transport, MTU: mtu})
			must(t, err)
			if strings.Contains(args, " -R ") {
				must(t, p.Rendezvous())
				must(t, p.Rendezvous())
			}
			remote, err := p.Keys(clientKeys)
			must(t, err)
			must(t, p.Ready())
			theirs, err := p.Finish(clientResults)
			killed := strings.Contains(name, "killed") || strings.Contains(name, "livelock")
			if killed {
				if !errors.Is(err, ErrHungUp) {
					t.Errorf("the peer was killed: %v", err)
				}
				return
			}
			must(t, err)
			compare(t, peer, lines, true)
			if p.Version != "6.06" || p.MTU != mtu || len(remote) != len(serverKeys) {
				t.Errorf("version %q, MTU %d, %d queue pairs", p.Version, p.MTU, len(remote))
			}
			for i := range remote {
				if k := serverKeys[i]; remote[i].QPN != k.QPN || remote[i].PSN != k.PSN || remote[i].Memory.RKey != k.Memory.RKey {
					t.Errorf("queue pair %d: %+v", i, remote[i])
				}
			}
			if serverResults.Size != 0 && theirs.words() != serverResults.words() {
				t.Errorf("results %+v, want %+v", theirs, serverResults)
			}
		})
	}
	if played < 60 {
		t.Errorf("only %d captures played", played)
	}
}

// compare wants that the side under test said what the real one said.
func compare(t *testing.T, peer *actor, lines []utterance, client bool) {
	t.Helper()
	want, wantPieces := saidBy(lines, client)
	got, gotPieces := peer.heard, peer.pieces
	if peer.messages {
		if len(gotPieces) != len(wantPieces) {
			t.Fatalf("%d messages, want %d", len(gotPieces), len(wantPieces))
		}
		for i := range gotPieces {
			g, w := gotPieces[i], wantPieces[i]
			if len(w) == binaryKeySize {
				clear(w[20:24]) // padding, of whatever was on the real one's stack
			}
			if !bytes.Equal(g, w) {
				t.Errorf("message %d:\n%x, want\n%x", i, g, w)
			}
		}
		return
	}
	if !bytes.Equal(got, want) {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		t.Errorf("%d bytes, want %d; from byte %d on\n%q, want\n%q", len(got), len(want), i, got[i:min(len(got), i+120)], want[i:min(len(want), i+120)])
	}
}

// TestPingpongReplay is the same for the pingpong programs.
func TestPingpongReplay(t *testing.T) {
	for _, name := range []string{"pingpong_rc", "pingpong_uc", "pingpong_ud", "pingpong_rc_ipv6", "pingpong_rc_mtu512"} {
		lines := tcpTranscript(t, name)
		c, err := parsePingpong(lines[0].data)
		must(t, err)
		s, err := parsePingpong(lines[1].data)
		must(t, err)
		t.Run(name+"/server", func(t *testing.T) {
			app := &replayApp{t: t, keys: []Parameters{s}}
			server := Server{New: func(via Via, _ net.Addr) (Application, error) {
				if via != ViaPingpong {
					t.Errorf("taken for %v", via)
				}
				return app, nil
			}}
			peer := &actor{lines: lines, client: true}
			must(t, server.Answer(peer, nil))
			compare(t, peer, lines, false)
			if len(app.opened) != 1 || app.opened[0].QPN != c.QPN || app.opened[0].PSN != c.PSN || app.opened[0].Address != c.Address || app.ready != 1 {
				t.Errorf("%+v, ready %d", app.opened, app.ready)
			}
		})
		t.Run(name+"/client", func(t *testing.T) {
			peer := &actor{lines: lines}
			remote, err := Pingpong(peer, 0, c)
			must(t, err)
			compare(t, peer, lines, true)
			if remote.QPN != s.QPN || remote.PSN != s.PSN || remote.Address != s.Address {
				t.Errorf("%+v", remote)
			}
		})
	}
}

// TestUDPPort takes the UDP source ports of captures that were connected by socket: both directions of a pair have one.
func TestUDPPort(t *testing.T) {
	for _, name := range []string{"write_bw_rc_q4", "pingpong_rc", "write_bw_rc_ipv6_v4tcp"} {
		lines := tcpTranscript(t, name)
		form := textKeys
		if len(lines[0].data) == pingpongSize {
			form = keyForm{pingpongSize, appendPingpong, parsePingpong}
		}
		var ends [2][]Parameters
		for _, l := range lines {
			if p, err := form.parse(l.data); err == nil && len(l.data) == form.size {
				i := 0
				if l.client {
					i = 1
				}
				ends[i] = append(ends[i], p)
			}
		}
		peers := map[uint32]uint32{}
		for i := range ends[0] {
			peers[ends[0][i].QPN], peers[ends[1][i].QPN] = ends[1][i].QPN, ends[0][i].QPN
		}
		packets := 0
		for _, f := range testkit.ReadCapture(t, filepath.Join(testkit.RXE(t), name+".pcap")) {
			var d dissect.Decoder
			var p dissect.Packet
			d.Decode(f.Link, f.Data, f.WireLen, &p)
			if !p.IsTransport() || p.DestQP == 1 {
				continue
			}
			packets++
			if want := UDPPort(0, p.DestQP, peers[p.DestQP]); p.SrcPort != want {
				t.Fatalf("%s: QP %#x with %#x: UDP source port %#x, want %#x", name, p.DestQP, peers[p.DestQP], p.SrcPort, want)
			}
		}
		if packets == 0 {
			t.Errorf("%s has no packets", name)
		}
	}
}
