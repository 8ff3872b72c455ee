package lab

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/rocescope/rocescope/lab/control"
)

// Side is one end of the cable.
type Side struct {
	IP4, IP6 netip.Prefix
}

// Host and Peer are the addresses of the namespace's and the guest's end.
var (
	Host = Side{netip.MustParsePrefix("10.77.0.1/24"), netip.MustParsePrefix("fd77::1/64")}
	Peer = Side{netip.MustParsePrefix("10.77.0.2/24"), netip.MustParsePrefix("fd77::2/64")}
)

// MTU of both ends: room for a path MTU of 4096.
const MTU = 4500

// Device is the guest's RDMA device.
const Device = "rxe0"

// GIDs of the guest's device, by their index: 0 is link-local.
const (
	GIDIPv4 = "1"
	GIDIPv6 = "2"
)

// PeerMAC is the hardware address of the guest at the first seat.
var PeerMAC = [6]byte{0x02, 0x00, 0x0a, 0x4d, 0x00, 0x02}

// GuestRocescope is where a guest has the program, if it was given one.
const GuestRocescope = "/bin/rocescope"

// memory of a guest that nothing else is said of, in MiB: its file system, and queues and buffers of any program in the table.
const memory = 512

// Guest is a running virtual machine.
type Guest struct {
	Cable  *Cable
	Kernel string        // its release, from itself
	Boot   time.Duration // how long that took
	folder string
	qemu   *exec.Cmd
	gone   chan struct{} // closed when the machine has ended
	*agent
}

// Boot starts the guest and waits until its agent is there. The caller is in the namespace that Enter makes.
func Boot(image *Image) (*Guest, error) { return BootAt(image, Seat{}) }

// BootAt starts a guest at one of the seats.
func BootAt(image *Image, seat Seat) (*Guest, error) {
	folder, err := os.MkdirTemp(image.Scratch(), "guest-")
	if err != nil {
		return nil, err
	}
	g := &Guest{folder: folder, gone: make(chan struct{})}
	if err := g.boot(image, seat); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// BootPair starts a guest at each of two seats, at the same time.
func BootPair(image *Image, seats [2]Seat) (guests [2]*Guest, err error) {
	var up [2]chan error
	for i, seat := range seats {
		up[i] = make(chan error, 1)
		go func() {
			var err error
			guests[i], err = BootAt(image, seat)
			up[i] <- err
		}()
	}
	if err := errors.Join(<-up[0], <-up[1]); err != nil {
		for _, g := range guests {
			if g != nil {
				g.Close()
			}
		}
		return [2]*Guest{}, err
	}
	return guests, nil
}

func (g *Guest) boot(image *Image, seat Seat) error {
	began := time.Now()
	var err error
	if g.Cable, err = newCable(seat); err != nil {
		return err
	}
	socket := filepath.Join(g.folder, "agent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	defer listener.Close()
	initrd, err := g.initrd(image, seat.Rocescope)
	if err != nil {
		return err
	}
	g.qemu = exec.Command("qemu-system-x86_64",
		"-machine", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", fmt.Sprint(cmp.Or(seat.Memory, memory)),
		"-nodefaults", "-display", "none", "-no-reboot", "-serial", "file:"+g.console(),
		"-kernel", image.kernelFile(), "-initrd", initrd, "-append", kernelLine(seat.Side()),
		"-netdev", "tap,id=n,ifname="+seat.Tap()+",script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=n,mac="+seat.mac()+",romfile=,host_mtu=9000,csum=off,gso=off,guest_csum=off,"+
			"guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,"+
			"ctrl_vlan=off", // or qemu drops tagged frames before Linux sees them
		"-device", "virtio-serial-pci", "-chardev", "socket,id=c,path="+socket, "-device", "virtserialport,chardev=c,name="+control.Port)
	var said bytes.Buffer
	g.qemu.Stderr = &said
	g.qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := g.start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return errors.New("the guest runs in qemu-system-x86_64, which is not here: apt-get install qemu-system-x86")
		}
		return err
	}
	conn, err := g.accept(listener)
	if err != nil {
		return fmt.Errorf("the guest did not start: %w\n%s", err, bytes.TrimSpace(said.Bytes()))
	}
	g.agent = newAgent(conn)
	select {
	case g.Kernel = <-g.agent.up:
	case <-g.gone:
		return fmt.Errorf("the guest ended before it was ready; its console:\n%s", g.Console())
	case <-time.After(bootPatience):
		return fmt.Errorf("the guest was not ready after %s; its console:\n%s", bootPatience, g.Console())
	}
	g.Boot = time.Since(began)
	return nil
}

// initrd is the guest's file system: the image's, and behind it another with the program, where there is one. The kernel unpacks all
// that stand behind each other.
func (g *Guest) initrd(image *Image, program string) (string, error) {
	if program == "" {
		return image.initrdFile(), nil
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	more := newArchive()
	more.put(GuestRocescope, modeProg, data)
	file := filepath.Join(g.folder, "initrd")
	return file, writeFile(file, func(w io.Writer) error {
		in, err := os.Open(image.initrdFile())
		if err != nil {
			return err
		}
		defer in.Close()
		if _, err := io.Copy(w, in); err != nil {
			return err
		}
		return more.write(w)
	})
}

// bootPatience covers a machine that has other things to do; booting takes some ten seconds on an idle one.
const bootPatience = 4 * time.Minute

// start starts qemu from a thread that lives until it has ended, since it shall end with this program.
func (g *Guest) start() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := g.qemu.Start()
		started <- err
		if err == nil {
			_ = g.qemu.Wait()
		}
		close(g.gone)
	}()
	return <-started
}

func (g *Guest) accept(l net.Listener) (net.Conn, error) {
	go func() {
		<-g.gone
		l.Close()
	}()
	return l.Accept()
}

func kernelLine(side Side) string {
	return strings.Join([]string{
		"console=ttyS0", "quiet", "panic=-1", "mitigations=off", "nokaslr", "tsc=reliable", "random.trust_cpu=on", "rdinit=/init",
		"no_timer_check", // on a busy machine the check finds a timer that does not tick, and the kernel gives up
		"net.ifnames=0", fmt.Sprint("lab.mtu=", MTU), fmt.Sprint("lab.ip4=", side.IP4), fmt.Sprint("lab.ip6=", side.IP6),
	}, " ")
}

func (g *Guest) console() string { return filepath.Join(g.folder, "console") }

// Console is the end of what the guest's kernel and agent said.
func (g *Guest) Console() string {
	text, _ := os.ReadFile(g.console())
	return string(text[max(0, len(text)-4000):])
}

// Close ends the guest.
func (g *Guest) Close() {
	if g.qemu != nil && g.qemu.Process != nil {
		_ = g.qemu.Process.Kill()
		<-g.gone
	}
	if g.agent != nil {
		g.agent.conn.Close()
	}
	os.RemoveAll(g.folder)
}
