package port

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/internal/testkit"
)

func TestChoose(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{MTU: 4200})
	openIn(t, lab.B, onInterfaces[0], Options{Ring: 2048}) // a virtual link takes live frames only if its far end has XDP
	for _, c := range []struct {
		name    string
		options Options
		kind    string
		says    string
	}{
		{"an interface", Options{Interface: "veth0"}, ViaXDP, "xdp: frames need not be copied"},
		{"frames of more than a page", Options{Interface: "veth0", MaxFrame: 4198}, ViaXDP, ""},
		{"messages that repeat", Options{Interface: "veth0", MaxFrame: 1098, Repeats: true}, ViaLive, "live: no other way"},
		{"long messages that repeat", Options{Interface: "veth0", MaxFrame: 4198, Repeats: true}, ViaXDP, "not live: veth0: make frames in the kernel: 4198 bytes"},
		{"asked for", Options{Interface: "veth0", Via: ViaPacket}, ViaPacket, "packet: it was asked for"},
		{"loopback", Options{Interface: "lo"}, ViaPacket, "not xdp"},
		{"a file", Options{File: "x.pcapng"}, ViaFile, "a file was named"},
		{"a simulation", Options{Command: []string{"./core"}}, ViaPipe, "a simulation"},
		{"a file, asked for", Options{Interface: "veth0", File: "x.pcapng", Via: ViaFile}, ViaFile, "asked for"},
	} {
		lab.A.Do(func() {
			if c.options.Interface == "lo" {
				if err := loopbackUp(); err != nil {
					t.Log(err)
					return
				}
			}
			got, err := Choose(c.options)
			if err != nil || got.Name != c.kind || !strings.Contains(got.Why, c.says) {
				t.Errorf("%s: %q, %v", c.name, got.Why, err)
			}
		})
	}
	lab.A.Do(func() {
		for _, c := range []struct {
			name    string
			options Options
			is      error
			says    string
		}{
			{"nothing", Options{}, nil, "neither an interface"},
			{"an unknown kind", Options{Interface: "veth0", Via: "warp"}, nil, `called "warp": there are live, xdp, packet`},
			{"long frames", Options{Interface: "veth0", MaxFrame: 9000}, ErrFrameSize, "mtu 8986"},
			{"no interface", Options{Interface: "nowhere"}, ErrGone, "nowhere"},
			{"live frames, too long", Options{Interface: "veth0", Via: ViaLive, MaxFrame: 4198, Repeats: true}, ErrFrameSize, "4198"},
			{"live frames, with faults", Options{Interface: "veth0", Via: ViaLive, MaxFrame: 1098}, ErrNotSupported, "repeat"},
		} {
			if _, err := Choose(c.options); err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	})
	lab.A.Do(func() { // what is allowed decides too
		if err := capabilities(unix.CAP_NET_RAW); err != nil {
			t.Error(err)
			return
		}
		c, err := Choose(Options{Interface: "veth0"})
		if err != nil || c.Name != ViaPacket || !strings.Contains(c.Why, "missing privilege") {
			t.Errorf("with CAP_NET_RAW: %q, %v", c.Why, err)
		}
		if ports, _, err := Open(Options{Interface: "veth0"}); err != nil || len(ports) != 1 || ports[0].Info().Via != ViaPacket {
			t.Errorf("opened %d, %v", len(ports), err)
		} else {
			ports[0].Close()
		}
	})
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// TestKindsAreDescribed: each has a name of its own and says what it is.
func TestKindsAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if seen[k.Name] || k.What == "" || k.Good == "" || k.Limits == "" {
			t.Errorf("%+v", k)
		}
		seen[k.Name] = true
	}
}
