package captures

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// machine runs a filter as the kernel would.
func machine(t *testing.T, filter string) *bpf.VM {
	t.Helper()
	raw, err := compileFilter(filter, 99, InOut)
	if err != nil {
		t.Fatal(err)
	}
	code := make([]bpf.Instruction, len(raw))
	for i := range raw {
		code[i] = raw[i].Disassemble()
	}
	vm, err := bpf.NewVM(code)
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	return vm
}

// passes says whether a frame passes.
func passes(t *testing.T, filter string, frame []byte) bool {
	t.Helper()
	n, err := machine(t, filter).Run(frame)
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	return n > 0
}

// kinds are frames by name.
func kinds() map[string][]byte {
	all := map[string][]byte{}
	for name, o := range map[string]testkit.ExchangeOptions{
		"v4": {}, "v6": {IPv6: true}, "v4 vlan": {VLANs: []uint16{100}}, "v6 qinq": {IPv6: true, VLANs: []uint16{100, 7}}, "v1": {RoCEv1: true, IPv6: true},
	} {
		x := testkit.NewExchange(o)
		all[name] = x.A.Write(100).Packets[0].Data
		all[name+" pause"] = x.A.Pause(1).Data
		if !o.RoCEv1 {
			all[name+" tcp"] = x.A.TCP(0, []byte("x")).Data
		}
	}
	v4, v6 := all["v4"], all["v6"]
	change := func(of []byte, f func(b []byte)) []byte {
		b := append([]byte(nil), of...)
		f(b)
		return b
	}
	all["v4 fragment"] = change(v4, func(b []byte) { binary.BigEndian.PutUint16(b[20:], 100) })
	all["v4 options"] = append(append(change(v4[:34], func(b []byte) { b[14] = 0x47 }), make([]byte, 8)...), v4[34:]...)
	all["v4 dns"] = change(v4, func(b []byte) { binary.BigEndian.PutUint16(b[36:], 53) })
	all["v4 icmp"] = change(v4, func(b []byte) { b[23] = 1 })
	all["v6 icmp"] = change(v6, func(b []byte) { b[20] = 58 })
	all["v6 hop-by-hop"] = append(append(change(v6[:54], func(b []byte) { b[20] = 0 }), 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), v6[54:]...)
	all["v6 fragment"] = append(append(change(v6[:54], func(b []byte) { b[20] = 44 }), 17, 0, 0x10, 0, 0, 0, 0, 0), v6[54:]...)
	all["v6 first fragment"] = append(append(change(v6[:54], func(b []byte) { b[20] = 44 }), 17, 0, 0, 1, 0, 0, 0, 0), v6[54:]...)
	all["arp"] = change(make([]byte, 42), func(b []byte) { binary.BigEndian.PutUint16(b[12:], 0x0806) })
	return all
}

func TestFilterSelects(t *testing.T) {
	all := kinds()
	isPause := func(n string) bool { return strings.HasSuffix(n, "pause") }
	isTCP := func(n string) bool { return strings.HasSuffix(n, "tcp") }
	later := func(n string) bool { return n == "v4 fragment" || n == "v6 fragment" }
	v2 := func(n string) bool {
		return !isPause(n) && !isTCP(n) && n != "v1" && !later(n) && n != "arp" && n != "v4 dns" && !strings.HasSuffix(n, "icmp")
	}
	is4 := func(n string) bool { return strings.HasPrefix(n, "v4") && !isPause(n) }
	is6 := func(n string) bool { return strings.HasPrefix(n, "v6") && !isPause(n) }
	for filter, want := range map[string]func(n string) bool{
		"":                        func(n string) bool { return v2(n) || n == "v1" || isPause(n) || isTCP(n) },
		"default":                 func(n string) bool { return v2(n) || n == "v1" || isPause(n) || isTCP(n) },
		"none":                    func(string) bool { return true },
		"roce":                    func(n string) bool { return v2(n) || n == "v1" },
		"rocev1":                  func(n string) bool { return n == "v1" },
		"udp port 4791":           v2,
		"port 4791":               v2,
		"port 53":                 func(n string) bool { return n == "v4 dns" },
		"tcp":                     isTCP,
		"udp":                     func(n string) bool { return v2(n) || later(n) || n == "v4 dns" },
		"tcp port 18515":          isTCP,
		"tcp port 4791":           func(string) bool { return false },
		"ip":                      is4,
		"ip6":                     is6,
		"icmp or icmp6":           func(n string) bool { return strings.HasSuffix(n, "icmp") },
		"not icmp and ip":         func(n string) bool { return is4(n) && n != "v4 icmp" },
		"arp":                     func(n string) bool { return n == "arp" },
		"host 10.0.0.1":           is4,
		"src host 10.0.0.2":       func(string) bool { return false },
		"dst host 10.0.0.2":       is4,
		"host 10.0.0.3":           func(string) bool { return false },
		"net 10.0.0.0/30":         is4,
		"src net 10.0.0.2/31":     func(string) bool { return false },
		"net 0.0.0.0/0":           is4,
		"host 2001:db8::2":        is6,
		"net 2001:db8::/33":       is6,
		"src net 2001:db8::2/127": func(string) bool { return false },
		"!(tcp or pause) && (ip || ip6)": func(n string) bool {
			return !isTCP(n) && !isPause(n) && (is4(n) || is6(n))
		},
		"not not ip":                                 is4,
		"ether host 02:00:0a:00:00:01":               func(n string) bool { return strings.HasPrefix(n, "v4") && (is4(n) || isPause(n)) },
		"ether host 02:00:0a:00:00:02 and not pause": is4,
		"NOT IP": func(n string) bool { return !is4(n) },
	} {
		for name, frame := range all {
			if got := passes(t, filter, frame); got != want(name) {
				t.Errorf("filter %q, frame %q: passes %v", filter, name, got)
			}
		}
	}
}

// TestFilterNeverFails cuts frames off everywhere: a filter then says no, or what it can say.
func TestFilterNeverFails(t *testing.T) {
	for _, filter := range []string{"", "not ip", "host 10.0.0.1 or host 2001:db8::1"} {
		vm := machine(t, filter)
		for name, frame := range kinds() {
			for n := range len(frame) {
				if _, err := vm.Run(frame[:n]); err != nil {
					t.Fatalf("%s cut at %d, %q: %v", name, n, filter, err)
				}
			}
		}
	}
}

func TestFilterErrors(t *testing.T) {
	for filter, want := range map[string]string{
		"foo":                           `"foo" is no test`,
		"rocev":                         `did you mean "rocev1"?`,
		"host":                          "an IPv4 or IPv6 address",
		"host example.org":              "names are not looked up",
		"udp port http":                 "a port is a number",
		"port 65536":                    "a port is a number",
		"net 10.0.0.0":                  "such as 10.0.0.0/8",
		"ether 1":                       "ether is followed by host",
		"src port 1":                    "src is followed by host or net",
		"(ip":                           "a ) is missing",
		"ip)":                           "does not belong here",
		"ip and":                        "a test is missing",
		"ip or none":                    "stands alone",
		"ip ip6":                        "does not belong here",
		strings.Repeat("(", 200) + "ip": "nested too deeply",
		"ip" + strings.Repeat(" or host 2001:db8::1", 300): "too long",
	} {
		err := CheckFilter(filter)
		var fe *FilterError
		if !errors.As(err, &fe) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", filter, err, want)
		}
	}
	for _, w := range filterWords {
		if !strings.Contains(FilterHelp, w) && w != "pfc" {
			t.Errorf("the help does not have %q", w)
		}
	}
}

func TestDefaultFilterIsAllThatWeTrack(t *testing.T) {
	var d dissect.Decoder
	var p dissect.Packet
	for name, frame := range kinds() {
		d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
		if p.Has(dissect.LayerBTH) && !passes(t, "", frame) {
			t.Errorf("%s has a BTH and is not captured", name)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, s := range []string{"", "none", "roce or (ip and not host 10.0.0.1)", "vlan 5", "ether host 02:00:00:00:00:01", "net 10.0.0.0/8"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		code, err := compileFilter(s, 99, In)
		if err == nil && len(code) == 0 {
			t.Fatal("no code and no error")
		}
		if err != nil && strings.Contains(fmt.Sprint(err), "%!") && !strings.Contains(s, "%!") { // a sentence that lacks its argument
			t.Fatal(err)
		}
	})
}
