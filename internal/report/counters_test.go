package report

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/testkit"
)

// follow is what a tracker and a tally say of a capture.
func follow(frames []testkit.Frame) (*flows.Snapshot, *HostTraffic) {
	tracker, tally := flows.New(flows.Options{}), NewHostTraffic()
	testkit.Batches(frames, 256, func(packets []dissect.Packet, data [][]byte) {
		tracker.Track(&flows.Batch{Packets: packets, Data: data, Marks: make([]flows.Mark, len(packets))})
		for i := range packets {
			tally.Packet(&packets[i])
		}
	})
	tracker.Finish()
	return tracker.Snapshot(), tally
}

// Each form in which a user may have counters reads as the same.
func TestReadCounters(t *testing.T) {
	want := map[string]uint64{"sent_pkts": 18446744073709551615, "rcvd_seq_err": 0, "RNR sent": 7}
	for name, form := range map[string]struct{ text, port string }{
		"ethtool -S":               {"NIC statistics:\n     sent_pkts: 18446744073709551615\n     rcvd_seq_err: 0\n     RNR sent: 7\n", ""},
		"rdma statistic show":      {"link rxe0/1 sent_pkts 18446744073709551615 rcvd_seq_err 0 \nRNR sent 7 \n", "rxe0/1"},
		"rdma statistic show -j":   {`[{"ifindex":3,"ifname":"rxe0","port":1,"sent_pkts":18446744073709551615,"rcvd_seq_err":0,"RNR sent":7}]`, "rxe0/1"},
		"ethtool --json":           {`{"ifname":"eth0","standard":{"sent_pkts":18446744073709551615},"rcvd_seq_err":0,"RNR sent":7}`, "eth0"},
		"grep -H . hw_counters/*":  {"/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts:18446744073709551615\n/sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_seq_err:0\n/sys/class/infiniband/rxe0/ports/1/hw_counters/RNR sent:7\n", "rxe0/1"},
		"grep in hw_counters":      {"./sent_pkts:18446744073709551615\n./rcvd_seq_err:0\n./RNR sent:7\n", ""},
		"head hw_counters/*":       {"==> hw_counters/sent_pkts <==\n18446744073709551615\n\n==> hw_counters/rcvd_seq_err <==\n0\n\n==> hw_counters/RNR sent <==\n7\n", ""},
		"CSV":                      {"name,value\nsent_pkts,18446744073709551615\n\"rcvd_seq_err\",\"0\"\nRNR sent, 7\n", ""},
		"CSV of a spreadsheet":     {"sep=;\r\nname;value\r\nsent_pkts;0xffffffffffffffff\r\nrcvd_seq_err;0\r\nRNR sent;7\r\n", ""},
		"lines of name and value":  {"sent_pkts 18446744073709551615\nrcvd_seq_err\t0\nRNR sent 7\n", ""},
		"lines of name = value":    {"sent_pkts = 18446744073709551615\nrcvd_seq_err=0\nRNR sent=7\n", ""},
		"a value without a number": {"sent_pkts: 18446744073709551615\nrcvd_seq_err: 0\nRNR sent: 7\nstate: up\nratio: 0.5\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "counters")
			if err := os.WriteFile(file, []byte(form.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := ReadCounters(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]map[string]uint64{form.port: want}, got.Ports); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadCountersOfFolders(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence": "12\n",
		"infiniband/mlx5_0/ports/1/counters/port_xmit_data":     "99\n",
		"infiniband/mlx5_1/ports/1/hw_counters/out_of_sequence": "7\n",
		"infiniband/mlx5_1/ports/1/state":                       "4: ACTIVE\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadCounters(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]uint64{"mlx5_0/1": {"out_of_sequence": 12, "port_xmit_data": 99}, "mlx5_1/1": {"out_of_sequence": 7}}
	if diff := cmp.Diff(want, got.Ports); diff != "" {
		t.Error(diff)
	}

	// The device is the one whose counters moved.
	after := &CounterReading{Ports: map[string]map[string]uint64{"mlx5_0/1": {"out_of_sequence": 12}, "mlx5_1/1": {"out_of_sequence": 8}}}
	if port, err := got.port(after); err != nil || port != "mlx5_1/1" {
		t.Errorf("%q, %v", port, err)
	}
	after.Ports["mlx5_0/1"]["out_of_sequence"]++
	if _, err := got.port(after); err == nil || !strings.Contains(err.Error(), "mlx5_0/1, mlx5_1/1") {
		t.Errorf("two devices moved: %v", err)
	}
	if _, err := got.port(&CounterReading{Ports: map[string]map[string]uint64{"rxe0/1": {}}}); err == nil {
		t.Error("readings of two devices")
	}
}

func TestReadCountersOfWhatIsNone(t *testing.T) {
	for name, text := range map[string]string{"prose": "Once upon a time\n", "empty": "", "twice": "a: 1\na: 2\n", "JSON": `{"a": [`} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := ReadCounters(file); err == nil {
			t.Errorf("%s: %v", name, r.Ports)
		}
	}
}

func TestDelta(t *testing.T) {
	for _, c := range []struct {
		before, after, want uint64
		ok                  bool
	}{
		{5, 5, 0, true},
		{5, 9, 4, true},
		{^uint64(0) - 1, 3, 5, true},  // 64 bits wrapped
		{1<<32 - 2, 3, 5, true},       // 32 bits wrapped
		{1<<32 - 2, 1 << 40, 0, true}, // no wrap: see below
		{1000, 3, 0, false},           // set back
		{1 << 40, 1 << 20, 0, false},  // set back
		{1 << 63, 1<<63 - 1, 1<<64 - 1, true},
	} {
		d, ok := delta(c.before, c.after)
		if c.after > c.before {
			c.want = c.after - c.before
		}
		if d != c.want || ok != c.ok {
			t.Errorf("%d to %d: %d, %v", c.before, c.after, d, ok)
		}
	}
}

// A list of the table's rows, so that none is without words and no name is there twice.
func TestPredictors(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range predictorTable {
		if p.about == "" || len(p.names) == 0 || p.predict == nil && p.ifMore+p.ifFewer != "" {
			t.Errorf("%v: what does it count?", p.names)
		}
		for _, name := range p.names {
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
		if p.predict != nil { // of a host that did nothing
			v := &hostView{}
			if n := p.predict(v); n != 0 {
				t.Errorf("%v: %d of nothing", p.names, n)
			}
			if p.slack != nil {
				for _, s := range p.slack(v) {
					if s.more != 0 || s.fewer != 0 || s.why == "" {
						t.Errorf("%v: %+v of nothing", p.names, s)
					}
				}
			}
		}
	}
}

// addressesOf are those of a machine of the lab: its own, that of its VLAN, and its IPv6 address.
func addressesOf(m testkit.Machine) []netip.Addr {
	last := m.IP[strings.LastIndexAny(m.IP, ".:")+1:]
	return []netip.Addr{netip.MustParseAddr(m.IP), netip.MustParseAddr("10.77.0." + last), netip.MustParseAddr("10.78.0." + last), netip.MustParseAddr("fd77::" + last)}
}

func reading(source string, values map[string]int64) *CounterReading {
	r := &CounterReading{Source: source, Ports: map[string]map[string]uint64{"rxe0/1": {}}}
	for name, v := range values {
		r.Ports["rxe0/1"][name] = uint64(v)
	}
	return r
}

// The counters of both stacks of each capture of soft-RoCE agree with what the capture predicts, or what differs is
// explained; and whose counters they are is found, or asked for, and never guessed wrong.
func TestCountersOfSoftRoCE(t *testing.T) {
	found, asked := 0, 0
	verdicts := map[string]int{}
	for _, e := range testkit.RXEManifest(t).Captures {
		if strings.HasPrefix(e.File, "iwarp_") {
			continue
		}
		t.Run(strings.TrimSuffix(e.File, ".pcap"), func(t *testing.T) {
			s, tally := follow(testkit.ReadCapture(t, filepath.Join(testkit.RXE(t), e.File)))
			for _, machine := range slices.Sorted(maps.Keys(e.CountersBefore)) {
				before, after := reading("before", e.CountersBefore[machine]), reading("after", e.CountersAfter[machine])
				m := e.Client
				if e.Server.Name == machine {
					m = e.Server
				}
				var host []netip.Addr
				for _, a := range addressesOf(m) {
					if slices.Contains(tally.order, dissect.AddrFrom(a)) {
						host = append(host, a)
					}
				}
				if len(host) == 0 {
					continue // the capture has nothing of it
				}
				c, err := NewCounters(before, after, s, tally, host)
				if err != nil {
					t.Fatal(err)
				}
				if c.Missing > 0 != (e.CaptureLimited != "") {
					t.Errorf("%s: the capture lacks %d packets", machine, c.Missing)
				}
				for _, n := range c.List {
					verdicts[n.Verdict]++
					switch {
					case n.Verdict == counterDiffers && !(e.CaptureLimited != "" && slices.Contains([]string{"sent_pkts", "rcvd_pkts"}, n.Name)):
						t.Errorf("%s of %s: the stack says %d, predicted is %d: %s", n.Name, machine, *n.Delta, *n.Predicted, n.Why)
					case n.Verdict == counterMissing || n.Verdict == counterReset || n.Verdict == counterUnknown:
						t.Errorf("%s of %s: %s", n.Name, machine, n.Verdict)
					case n.Verdict == counterExplained && testing.Verbose():
						t.Logf("%s of %s: %d, predicted %d: %s", n.Name, machine, *n.Delta, *n.Predicted, n.Why)
					}
				}

				c, err = NewCounters(before, after, s, tally, nil)
				switch {
				case err != nil:
					asked++
					if !strings.Contains(err.Error(), "do not tell whose they are") {
						t.Error(err)
					}
				case !slices.ContainsFunc(host, func(a netip.Addr) bool { return c.Host[0] == a.String() }):
					t.Errorf("the counters of %v were taken for those of %v", host, c.Host)
				default:
					found++
				}
			}
		})
	}
	t.Logf("whose counters they are was found %d times and asked %d times; verdicts %v", found, asked, verdicts)
	if found < 2*asked {
		t.Errorf("found %d, asked %d", found, asked)
	}
}

// At both ends of a faulty wire: a machine's counters agree with the capture at its own end, or what differs is explained.
// From the other end, loss shows that the wire alone does not tell of: that is what the comparison is for.
func TestCountersAtTwoTaps(t *testing.T) {
	differ := 0
	for _, e := range testkit.TwoTapManifest(t).Pairs {
		for _, f := range e.Files {
			t.Run(strings.TrimSuffix(f.File, ".pcap"), func(t *testing.T) {
				s, tally := follow(testkit.ReadCapture(t, filepath.Join(testkit.TwoTap(t), f.File)))
				for machine, m := range map[string]testkit.Machine{e.Client.Name: e.Client, e.Server.Name: e.Server} {
					host := slices.DeleteFunc(addressesOf(m), func(a netip.Addr) bool { return !slices.Contains(tally.order, dissect.AddrFrom(a)) })
					c, err := NewCounters(reading("before", e.CountersBefore[machine]), reading("after", e.CountersAfter[machine]), s, tally, host)
					if err != nil {
						t.Fatal(err)
					}
					for _, n := range c.List {
						if n.Verdict != counterDiffers {
							continue
						}
						differ++
						if strings.Contains(f.File, "_tap_"+machine) {
							t.Errorf("%s of %s: the stack says %d, predicted is %d: %s", n.Name, machine, *n.Delta, *n.Predicted, n.Why)
						}
					}
				}
			})
		}
	}
	t.Logf("%d counters differ from what the other end's tap predicts", differ)
}

// countersExample are the counters of the requester of the sample whose lost WRITEs were sent again, as the stack told them.
func countersExample(t *testing.T, o TextOptions) string {
	t.Helper()
	frames := testkit.ReadCapture(t, filepath.Join(testkit.ModuleRoot(t), "captures", "samples", "lost_write_recovered.pcap"))
	s, tally := follow(frames)
	before := &CounterReading{Source: "run1/before.txt", Ports: map[string]map[string]uint64{"rxe0/1": {
		"sent_pkts": ^uint64(0) - 100, "rcvd_pkts": 40, "duplicate_request": 0, "out_of_seq_request": 0, "rcvd_rnr_err": 0, "send_rnr_err": 0,
		"rcvd_seq_err": 3, "ack_deferred": 1, "retry_exceeded_err": 0, "completer_retry_err": 1, "rdma_sends": 9, "old": 4, "temperature": 60, "idle": 2,
	}}}
	after := &CounterReading{Source: "run1/after.txt", Ports: map[string]map[string]uint64{"rxe0/1": {
		"sent_pkts": 316, "rcvd_pkts": 40 + 71, "duplicate_request": 0, "out_of_seq_request": 0, "rcvd_rnr_err": 0, "send_rnr_err": 0,
		"rcvd_seq_err": 5, "ack_deferred": 5, "retry_exceeded_err": 1, "completer_retry_err": 7, "rdma_sends": 0, "temperature": 61, "idle": 2,
	}}}
	c, err := NewCounters(before, after, s, tally, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDocument(s, Capture{Files: []string{"lost_write_recovered.pcap"}, Packets: uint64(len(frames))})
	d.Counters = c
	text := render(t, d, o)
	return text[strings.Index(text, "Counters of"):]
}

func TestTextOfCounters(t *testing.T) {
	for _, width := range []int{80, 120} {
		testkit.Golden(t, fmt.Sprintf("counters.%d.txt", width), []byte(countersExample(t, TextOptions{Width: width})))
	}
}
