package flows

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// pairScore is how the RC connections of disguised captures were told.
type pairScore struct{ Connections, Found, Ambiguous, OneWay, Missed, Wrong int }

func (s *pairScore) add(o pairScore) {
	s.Connections += o.Connections
	s.Found += o.Found
	s.Ambiguous += o.Ambiguous
	s.OneWay += o.OneWay
	s.Missed += o.Missed
	s.Wrong += o.Wrong
}

// scorePairs compares a tracker's connections with the truth. A connection of
// which one direction was captured cannot be found, and is right as unpaired.
// Missed is what is neither found nor ambiguous with the truth among the
// candidates.
func scorePairs(d *testkit.Disguised, s *Snapshot) (score pairScore, complaints []string) {
	name := func(q testkit.QPAddr) QPName { return QPName{Addr: q.Addr, VLAN: -1, QPN: q.QPN} }
	bare := func(q QPName) QPName { q.VLAN = -1; return q }
	truth := map[[2]QPName]bool{} // a number that is used again can be in several pairs
	for _, p := range d.Pairs {
		truth[[2]QPName{name(p.A), name(p.B)}] = true
		truth[[2]QPName{name(p.B), name(p.A)}] = true
	}
	lone := map[QPName]*Connection{}
	found := map[[2]QPName]bool{}
	for i := range s.Connections {
		c := &s.Connections[i]
		if c.Transport == dissect.UD {
			continue
		}
		a, b := bare(c.A.QPName), bare(c.B.QPName)
		switch {
		case !c.A.Known || !c.B.Known:
			lone[b] = c
			if c.Transport == dissect.UC && c.Evidence != Unpaired {
				complaints = append(complaints, fmt.Sprintf("UC to %v is %v", b, c.Evidence))
				score.Wrong++
			}
		case !truth[[2]QPName{a, b}]:
			complaints = append(complaints, fmt.Sprintf("%v and %v were paired (%s)", a, b, c.Why))
			score.Wrong++
		default:
			found[[2]QPName{a, b}], found[[2]QPName{b, a}] = true, true
		}
	}
	for _, p := range d.Pairs {
		a, b := name(p.A), name(p.B)
		pair := [2]QPName{a, b}
		toA, toB := lone[a], lone[b]
		if !found[pair] && toA == nil && toB == nil {
			continue // no packet of it
		}
		if toA != nil && toA.Transport != dissect.RC || toB != nil && toB.Transport != dissect.RC {
			continue
		}
		score.Connections++
		among := func(c *Connection, want QPName) bool {
			return c == nil || slices.ContainsFunc(c.Candidates, func(q QPName) bool { return bare(q) == want })
		}
		switch {
		case found[pair]:
			score.Found++
		case toA == nil || toB == nil:
			score.OneWay++
			if c := eitherConn(toA, toB); c.Evidence != Unpaired {
				complaints = append(complaints, fmt.Sprintf("one way, and %v", c.Evidence))
				score.Missed++
			}
		case toA.Evidence == Ambiguous && toB.Evidence == Ambiguous && among(toA, b) && among(toB, a):
			score.Ambiguous++
			complaints = append(complaints, fmt.Sprintf("ambiguous: %v, %v; %s; %s", toA.Candidates, toB.Candidates, toA.Why, toB.Why))
		default:
			score.Missed++
			complaints = append(complaints, fmt.Sprintf("missed: %v/%v is %v %v, %v %v", a, b, toA.Evidence, toA.Candidates, toB.Evidence, toB.Candidates))
		}
	}
	return score, complaints
}

func eitherConn(a, b *Connection) *Connection {
	if a != nil {
		return a
	}
	return b
}

var disguises = []struct {
	name, text string
	how        testkit.DisguisePSN
}{{"random", "each its own", testkit.RandomPSNs}, {"equal", "all the same", testkit.EqualPSNs}, {"zero", "all 0", testkit.ZeroPSNs}}

const disguiseSeeds = 3

// scoreDisguises scores a capture under all disguises.
func scoreDisguises(t *testing.T, file string, frames []testkit.Frame, pairs []testkit.QPPair) (scores [3]pairScore) {
	t.Helper()
	for i, v := range disguises {
		for seed := range uint64(disguiseSeeds) {
			d, err := testkit.Disguise(frames, pairs, v.how, seed+1)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			score, complaints := scorePairs(d, look(d.Frames).Snapshot)
			scores[i].add(score)
			if len(complaints) > 0 {
				t.Logf("%s, %s PSNs, seed %d:\n\t%s", file, v.name, seed+1, strings.Join(complaints, "\n\t"))
			}
			if score.Wrong > 0 || score.Missed > 0 {
				t.Errorf("%s, %s PSNs, seed %d: %+v", file, v.name, seed+1, score)
			}
		}
	}
	return scores
}

// TestPairingSamples scores the bundled captures.
func TestPairingSamples(t *testing.T) {
	var total [3]pairScore
	for _, s := range samples.List() {
		data, err := samples.Open(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		frames, err := testkit.ParseCapture(data)
		if err != nil {
			t.Fatal(err)
		}
		if s.Truth.Transport == "UD" {
			continue
		}
		pairs := testkit.CMPairs(frames)
		a, b := addrOf(s.Sides.Client.Address), addrOf(s.Sides.Server.Address)
		for i := range min(len(s.Sides.Client.QueuePairs), len(s.Sides.Server.QueuePairs)) {
			p := testkit.QPPair{
				A: testkit.QPAddr{Addr: a, QPN: uint32(s.Sides.Client.QueuePairs[i].QPN)},
				B: testkit.QPAddr{Addr: b, QPN: uint32(s.Sides.Server.QueuePairs[i].QPN)},
			}
			if !slices.Contains(pairs, p) {
				pairs = append(pairs, p)
			}
		}
		if len(pairs) == 0 {
			continue
		}
		for i, score := range scoreDisguises(t, s.Name, frames, pairs) {
			total[i].add(score)
		}
	}
	for i, v := range disguises {
		t.Logf("%-7s %+v", v.name, total[i])
		if total[i].Connections < 5*disguiseSeeds || total[i].Found+total[i].OneWay < total[i].Connections {
			t.Errorf("%s PSNs: not all were found", v.name)
		}
	}
}

// TestPairingRXE scores the library of soft-RoCE captures, and keeps the table
// in docs/pairing.md.
func TestPairingRXE(t *testing.T) {
	var total [3]pairScore
	unclear := map[string]pairScore{}
	for _, e := range testkit.RXEManifest(t).Captures {
		if strings.HasPrefix(e.File, "iwarp_") {
			continue
		}
		frames := testkit.ReadCapture(t, filepath.Join(testkit.RXE(t), e.File))
		pairs, ok := testkit.TruePairs(e, frames)
		if !ok {
			continue
		}
		scores := scoreDisguises(t, e.File, frames, pairs)
		for i := range scores {
			total[i].add(scores[i])
			if s := scores[i]; s.Found < s.Connections {
				s.add(unclear[e.File])
				unclear[e.File] = s
			}
		}
	}
	for i, v := range disguises {
		t.Logf("%-7s %+v", v.name, total[i])
		if total[i].Found*100 < total[i].Connections*95 {
			t.Errorf("%s PSNs: less than 95 %% were found", v.name)
		}
	}
	checkPairingPage(t, pairingPage(&total, unclear))
}

func pairingPage(total *[3]pairScore, unclear map[string]pairScore) []byte {
	var b bytes.Buffer
	b.WriteString(pairingHead)
	for i, v := range disguises {
		s := total[i]
		fmt.Fprintf(&b, "| %s | %d | %d (%.1f %%) | %d | %d | %d |\n", v.text, s.Connections, s.Found,
			100*float64(s.Found)/float64(s.Connections), s.Ambiguous, s.OneWay, s.Wrong)
	}
	b.WriteString("\nNot found everywhere:\n\n")
	for _, file := range slices.Sorted(func(yield func(string) bool) {
		for f := range unclear {
			if !yield(f) {
				return
			}
		}
	}) {
		s := unclear[file]
		fmt.Fprintf(&b, "* `%s`: %d of %d connections ambiguous\n", strings.TrimSuffix(file, ".pcap"), s.Ambiguous, s.Connections)
	}
	b.WriteString(pairingTail)
	return b.Bytes()
}

const pairingHead = `# Who talks to whom, when no handshake was captured

<!-- go test ./flows -run TestPairingRXE -update writes this page -->

A packet names only the queue pair that it goes to. Where neither a CM nor a socket exchange is in the capture, the two
streams of a connection are found by what they say of each other:

* an answer is to a PSN that had been sent by then (requests up to 50 µs behind their answers in the capture contradict
  nothing: capture order is not wire order),
* READ responses answer READ requests, of the length that was asked for; atomic answers answer atomics,
* from one acknowledgement to the next, the MSN counts the messages that were completed,
* acknowledgements come where they were asked for, if the requester asks for them.

The last two rule a queue pair out only where another one fits all through. A pair is made when one queue pair is left
that several answers fit, and the others are contradicted by several; QPNs, source ports and starting PSNs prove nothing.
What cannot be told is *ambiguous*, with the queue pairs that it may be; a stream that nothing answers, as all of UC, is
*unpaired*. A pair whose answers stop fitting is undone.

## Score

The library of soft-RoCE captures, in disguise: QPNs dealt anew, source ports random in each direction, CM and TCP taken
out, starting PSNs as told, three times each.

| starting PSNs | RC connections | found | ambiguous, the truth among the candidates | one direction only: unpaired | wrong |
|---|---|---|---|---|---|
`

const pairingTail = `
In that capture three queue pairs between the same hosts send messages of one size in lockstep from the same PSN: each
answer fits all three at its time.
`

// checkPairingPage compares the page with docs/pairing.md, or writes it.
func checkPairingPage(t *testing.T, page []byte) {
	file := filepath.Join(testkit.ModuleRoot(t), "docs", "pairing.md")
	if testkit.Update() {
		if err := os.WriteFile(file, page, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, page) {
		t.Errorf("docs/pairing.md is stale (%v); go test ./flows -run TestPairingRXE -update writes it:\n%s", err, page)
	}
}

// TestPairingPublic: NCCL's rings, whose queue pairs all begin at PSN 0.
func TestPairingPublic(t *testing.T) {
	for file, want := range map[string][]string{
		"rocev2_linlinw5_nccl-ring2_node0.pcap": {"172.30.0.11/35-172.30.0.25/34", "172.30.0.12/39-172.30.0.25/35"},
		"rocev2_linlinw5_nccl-ring2_node1.pcap": {"172.30.0.11/34-172.30.0.12/40", "172.30.0.11/35-172.30.0.25/34"},
		"rocev2_linlinw5_nccl-tree2_node2.pcap": {
			"172.30.0.11/37-172.30.0.12/44", "172.30.0.11/39-172.30.0.12/45", "172.30.0.12/43-172.30.0.25/38", "172.30.0.12/46-172.30.0.25/39",
		},
	} {
		s := look(testkit.ReadCapture(t, filepath.Join(testkit.Public(t), file)))
		var got []string
		for i := range s.Connections {
			c := &s.Connections[i]
			a, b := fmt.Sprintf("%v/%d", c.A.Addr, c.A.QPN), fmt.Sprintf("%v/%d", c.B.Addr, c.B.QPN)
			got = append(got, min(a, b)+"-"+max(a, b))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", file, got, want)
		}
	}
}

// together merges captures in the order of time.
func together(captures ...[]testkit.Frame) []testkit.Frame {
	all := slices.Concat(captures...)
	slices.SortStableFunc(all, func(a, b testkit.Frame) int { return cmp.Compare(a.Time, b.Time) })
	return all
}

// TestPairingManyQPs: several conversations between the same two hosts, all
// from the same PSN, with permuted QPNs. Never a wrong pair, and who is not
// found has the truth among the candidates.
func TestPairingManyQPs(t *testing.T) {
	var total pairScore
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "pairs")
		v6 := rapid.Bool().Draw(t, "ipv6")
		kinds := []testkit.SimFaultKind{testkit.Lose, testkit.Duplicate, testkit.Reorder}
		holes := rapid.Bool().Draw(t, "capture has holes")
		if holes {
			kinds = append(kinds, testkit.Miss)
		}
		psn := dissect.PSN(rapid.SampledFrom([]uint32{0, 0xFFFFF0, 0x123456}).Draw(t, "psn"))
		qpns := rapid.Permutation([]uint32{0x11, 0x12, 0x13, 0x14, 0x15, 0x16}).Draw(t, "qpns of b")
		d := &testkit.Disguised{}
		var captures [][]testkit.Frame
		for i := range n {
			o := testkit.SimGen().Draw(t, "conversation")
			o.IPv6, o.PSNA, o.PSNB = v6, psn, psn
			o.QPNA, o.QPNB = uint32(0x11+i), qpns[i]
			o.Start = time.Unix(1_700_000_000, 0).Add(time.Duration(rapid.IntRange(0, 2_000_000).Draw(t, "begins")))
			o.Faults = testkit.FaultGen(o, 2, kinds...).Draw(t, "faults")
			o.Retries = 16
			r := testkit.Simulate(o)
			var ways [2]bool
			for _, at := range r.Truth {
				ways[r.Packets[at].From] = true
			}
			if ways != [2]bool{true, true} {
				continue // one way of one connection and one of another can look like a pair
			}
			captures = append(captures, r.Frames)
			d.Pairs = append(d.Pairs, testkit.NewExchange(o.ExchangeOptions).Pair())
		}
		d.Frames = together(captures...)
		score, complaints := scorePairs(d, look(d.Frames).Snapshot)
		total.add(score)
		if score.Wrong > 0 || score.Missed > 0 && !holes {
			t.Fatalf("%+v\n%s", score, strings.Join(complaints, "\n"))
		}
	})
	t.Logf("%+v", total)
}

// TestPairingLate: the first answer comes when far more has passed than can be
// held.
func TestPairingLate(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{MTU: 256, AckReqEvery: 64})
	for range 6 {
		m := x.A.Write(3000 * 256)
		x.B.Answer(m)
	}
	y := x.Beside(nil) // makes it worth while to go on holding
	y.B.Answer(y.A.Write(10))
	s := look(x.Frames())
	var pair *Connection
	for i := range s.Connections {
		if c := &s.Connections[i]; c.Evidence == Inferred && c.Streams[AToB].Packets == 18000 {
			pair = c
		}
	}
	if pair == nil || pair.B.QPN != 0x12 || pair.A.QPN != 0x11 {
		t.Fatalf("not found:\n%s", s.describe())
	}
	if n := pair.Streams[AToB].Messages[OpWrite]; n.Count != 6 || n.Completed != 6 {
		t.Errorf("messages %+v", n)
	}
	if len(s.tracker.seekers) != 0 || len(s.tracker.groups) != 0 || s.tracker.held != 0 || s.tracker.testimony != 0 {
		t.Errorf("left behind: %d seekers, %d groups, %d packets, %d notes", len(s.tracker.seekers), len(s.tracker.groups), s.tracker.held, s.tracker.testimony)
	}
}

// TestPairingUndone: a queue pair number is used again by somebody else, and
// the answers stop fitting.
func TestPairingUndone(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{PSNA: 0x100, QPNA: 0x11, QPNB: 0x12})
	for range 5 {
		x.B.Answer(x.A.Write(10))
	}
	y := x.Beside(func(o *testkit.ExchangeOptions) { o.QPNA, o.QPNB, o.PSNA = 0x11, 0x13, 0x777000 }) // another partner
	for range 20 {
		y.B.Answer(y.A.Write(10))
		y.Wait(20 * time.Millisecond)
	}
	s := look(x.Frames())
	var got []string
	for i := range s.Connections {
		c := &s.Connections[i]
		got = append(got, fmt.Sprintf("%v %x-%x", c.Evidence, c.A.QPN, c.B.QPN))
	}
	slices.Sort(got)
	if want := []string{"ambiguous 11-12", "inferred 11-13"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v\n%s", got, want, s.describe())
	}
}

// TestPairingOneWay: nothing comes back.
func TestPairingOneWay(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	for range 3000 {
		x.A.Write(10)
	}
	s := look(x.Frames())
	if c := s.only(t); c.Evidence != Unpaired || c.A.Known || len(c.Candidates) != 0 {
		t.Errorf("%v, candidates %v", c.Evidence, c.Candidates)
	}
}

// TestPartitionOneWay: without the other side's P_Key a stream's own says which packets are of another partition.
func TestPartitionOneWay(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	for i := range 9 {
		p := x.A.Write(10).Packets[0]
		if i == 4 || i == 6 {
			p.Edit(func(q *dissect.Packet, data []byte) { q.BTH(data).SetPKey(0x8001) })
		}
	}
	var got []string
	for _, f := range look(x.Frames()).tracker.Snapshot().Findings {
		if f.ID == findPKey {
			got = append(got, fmt.Sprintf("%d: %s", f.Frame, f.Summary))
		}
	}
	if want := []string{"5: P_Key 0x8001, behind 0xffff: no queue pair takes both (2 packets)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPairingCost: many streams without partner between two hosts cost a
// bounded number of comparisons each, bounded memory, and do not keep others
// from being found.
func TestPairingCost(t *testing.T) {
	const lone = 100_000
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	frame := x.A.Write(10).Packets[0].Frame
	answered := testkit.NewExchange(testkit.ExchangeOptions{QPNA: 0xABCDE, QPNB: 0xABCDF, Start: time.Unix(1_800_000_000, 0)})
	for range 200 {
		answered.B.Answer(answered.A.Write(10))
	}
	for _, requests := range []bool{true, false} {
		tr := New(Options{})
		var d dissect.Decoder
		marks := make([]Mark, 1)
		packets := make([]dissect.Packet, 1)
		track := func(f testkit.Frame, n int) {
			d.Decode(f.Link, f.Data, f.WireLen, &packets[0])
			packets[0].Number, packets[0].Time = uint64(n), f.Time
			tr.Track(&Batch{Packets: packets, Data: [][]byte{f.Data}, Marks: marks})
		}
		if !requests {
			frame = x.B.Ack(0, 1).Frame
		}
		for n := range lone {
			d.Decode(frame.Link, frame.Data, frame.WireLen, &packets[0])
			packets[0].BTH(frame.Data).SetDestQP(uint32(2 + n))
			track(frame, n+1)
		}
		if tr.held > maxHeld || len(tr.seekers) > maxSeekers || tr.testimony > maxTestimony {
			t.Errorf("%d packets held of %d streams, %d notes", tr.held, len(tr.seekers), tr.testimony)
		}
		for i, f := range answered.Frames() {
			track(f, lone+i+1)
		}
		tr.Finish()
		if per := tr.compared / (lone + 400); per > 64 {
			t.Errorf("%d comparisons a packet", per)
		}
		found := false
		for _, c := range tr.Snapshot().Connections {
			if c.Evidence == Inferred {
				found = found || c.A.QPN == 0xABCDE && c.B.QPN == 0xABCDF
				if c.A.QPN != 0xABCDE {
					t.Errorf("%v and %v were paired", c.A.QPName, c.B.QPName)
				}
			}
		}
		if !found {
			t.Error("the one pair was not found")
		}
	}
}
