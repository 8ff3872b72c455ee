package xsk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The test program is its own second process: with this set, it opens a socket and a program, says so, and stays.
const helperVariable = "XSK_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		helper()
		return
	}
	os.Exit(m.Run())
}

func helper() {
	u, err := NewUMEM(UMEMOptions{Chunks: 64})
	var s *Socket
	if err == nil {
		s, err = Open(Options{Interface: right, UMEM: u, RX: 64})
	}
	var p *Program
	if err == nil {
		p, err = LoadProgram(ProgramOptions{})
	}
	if err == nil {
		_, err = p.Attach(right, AttachNative)
	}
	if err == nil {
		err = p.Register(s)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin) // until it is killed, or its parent is
	runtime.KeepAlive(p)
}

// startHelper runs the second process in the test's network namespace, and returns when it has the queue and the interface.
func startHelper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperVariable+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the second process says %q", line)
	}
	return cmd
}

func attached(t *testing.T, w *wire) uint32 {
	t.Helper()
	f, err := Probe(w.right.Attrs().Name)
	if err != nil {
		t.Fatal(err)
	}
	return f.ProgramID
}

func TestSecondProcessAndKill(t *testing.T) {
	w := newWire(t, 1500, 1)
	cmd := startHelper(t)
	if attached(t, w) == 0 {
		t.Error("no program is attached, says Probe")
	}

	_, err := Open(Options{Interface: right, UMEM: newTestUMEM(t, UMEMOptions{Chunks: 64}), RX: 64})
	if !errors.Is(err, ErrBusy) || !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "right queue 0") || !strings.Contains(err.Error(), "another AF_XDP socket") {
		t.Errorf("a second socket on the queue: %v", err)
	}
	p, err := LoadProgram(ProgramOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := Vacant(right); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "another XDP program") {
		t.Errorf("an interface with a program: %v", err)
	}
	if err := Vacant(left); err != nil {
		t.Errorf("an interface without one: %v", err)
	}
	for _, mode := range []AttachMode{AttachAuto, AttachNative, AttachGeneric} {
		if a, err := p.Attach(right, mode); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "another XDP program") {
			t.Errorf("a second program, in %v mode: %v, %v", mode, a, err)
		}
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	waitFor(t, "the program's end", func() bool { return attached(t, w) == 0 })
	// And the queue is free, as soon as Open finds it so.
	waitFor(t, "the queue's release", func() bool {
		s, err := Open(Options{Interface: right, UMEM: newTestUMEM(t, UMEMOptions{Chunks: 64}), RX: 64})
		if err != nil {
			return false
		}
		return s.Close() == nil
	})
}

// TestReopen: the kernel frees a closed socket's queue some time later, which must not be anybody's concern.
func TestReopen(t *testing.T) {
	newWire(t, 1500, 1)
	u := newTestUMEM(t, UMEMOptions{Chunks: 64})
	for i := range 20 {
		s, err := Open(Options{Interface: left, UMEM: u, RX: 64, TX: 64})
		if err != nil {
			t.Fatalf("time %d: %v", i, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("closed twice: %v", err)
		}
		if _, err := s.Kick(); !errors.Is(err, ErrClosed) {
			t.Errorf("send after Close: %v", err)
		}
		if _, err := s.Wait(time.Second); !errors.Is(err, ErrClosed) {
			t.Errorf("wait after Close: %v", err)
		}
	}
}

// TestInterfaceDeleted takes the interface away from a socket that waits and one that sends.
func TestInterfaceDeleted(t *testing.T) {
	w := newWire(t, 1500, 1)
	p := attachProgram(t, right, ProgramOptions{}, AttachNative)
	rx := receiver(t, p, Options{Interface: right, RX: 64})
	tx := openSocket(t, Options{Interface: left, TX: 64})
	chunks, _ := tx.UMEM().Take(1)
	descs := place(tx.UMEM(), chunks, frameOptions{}.build(nil))

	type end struct {
		what string
		err  error
	}
	ends := make(chan end, 2)
	go func() {
		packets := make([]Packet, 64)
		for {
			if _, err := rx.Wait(-1); err != nil {
				ends <- end{"waiting", err}
				return
			}
			rx.Receive(packets)
			rx.Release()
		}
	}()
	go func() {
		for {
			tx.Queue(descs)
			if _, err := tx.Kick(); err != nil {
				ends <- end{"sending", err}
				return
			}
			tx.ReapAll()
			time.Sleep(time.Millisecond)
		}
	}()
	time.Sleep(50 * time.Millisecond)
	if err := netlink.LinkDel(w.left); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case e := <-ends:
			if !errors.Is(e.err, ErrGone) {
				t.Errorf("%s: %v", e.what, e.err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("one of the two hangs")
		}
	}
	if _, err := tx.Drain(time.Second); !errors.Is(err, ErrGone) {
		t.Errorf("drain: %v", err)
	}
	if s := stats(t, rx); s.RxPackets == 0 {
		t.Errorf("statistics after the end: %+v", s)
	}
	if _, err := Open(Options{Interface: right, UMEM: newTestUMEM(t, UMEMOptions{Chunks: 64}), RX: 64}); !errors.Is(err, ErrGone) {
		t.Errorf("open: %v", err)
	}
	if _, err := p.Attach(right, AttachAuto); !errors.Is(err, ErrGone) {
		t.Errorf("attach: %v", err)
	}
	if _, err := Probe(right); !errors.Is(err, ErrGone) {
		t.Errorf("probe: %v", err)
	}
}

func TestInterfaceDown(t *testing.T) {
	w := newWire(t, 1500, 1)
	tx := openSocket(t, Options{Interface: left, TX: 64})
	chunks, _ := tx.UMEM().Take(1)
	tx.Queue(place(tx.UMEM(), chunks, frameOptions{}.build(nil)))
	if err := netlink.LinkSetDown(w.left); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Kick(); !errors.Is(err, ErrDown) {
		t.Errorf("send on an interface that is down: %v", err)
	}
	if err := netlink.LinkSetUp(w.left); err != nil {
		t.Fatal(err)
	}
	if done, err := tx.Drain(time.Second); !done || err != nil {
		t.Errorf("and when it is up again: %v, %v", done, err)
	}
}

func TestInterrupt(t *testing.T) {
	newWire(t, 1500, 1)
	s := openSocket(t, Options{Interface: left, RX: 64})
	go func() {
		time.Sleep(20 * time.Millisecond)
		s.Interrupt()
	}()
	began := time.Now()
	if ready, err := s.Wait(10 * time.Second); ready || err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("interrupted after %v: %v, %v", time.Since(began), ready, err)
	}
	began = time.Now()
	if ready, err := s.Wait(50 * time.Millisecond); ready || err != nil || time.Since(began) < 45*time.Millisecond {
		t.Errorf("interrupted again after %v: %v, %v", time.Since(began), ready, err)
	}
}

// TestRefusals: what cannot be, is refused with what it is.
func TestRefusals(t *testing.T) {
	newWire(t, 9000, 1)
	u := newTestUMEM(t, UMEMOptions{Chunks: 256})
	for _, c := range []struct {
		name string
		o    Options
		want error
		say  string
	}{
		{"no interface of the name", Options{Interface: "nowhere", RX: 64}, ErrGone, "nowhere"},
		{"no such queue", Options{Interface: left, RX: 64, Queue: 5}, ErrQueue, "it has 1"},
		{"zero-copy", Options{Interface: left, RX: 64, Mode: ZeroCopy}, ErrNotSupported, "driver veth does not offer it"},
		{"frame longer than a chunk", Options{Interface: left, TX: 64, MaxFrame: 4198}, ErrFrameSize, "MultiBuffer"},
		{"frame longer than the MTU", Options{Interface: left, TX: 64, MaxFrame: 9100, MultiBuffer: true}, ErrFrameSize, "ip link set left mtu 9086"},
		{"more chunks than there are", Options{Interface: left, RX: 512}, ErrMemory, "free ones"},
	} {
		c.o.UMEM = u
		s, err := Open(c.o)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v", c.name, err)
		}
		t.Log(err)
	}
	if chunks, ok := u.Take(256); !ok {
		t.Error("chunks were lost on the way")
	} else {
		u.Give(chunks)
	}

	p, err := LoadProgram(ProgramOptions{NoFrags: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, err = p.Attach(right, AttachNative)
	if !errors.Is(err, ErrFrameSize) || !strings.Contains(err.Error(), "MTU of 9000") {
		t.Errorf("a program that is not aware of fragments: %v", err)
	}
	t.Log(err)
	a, err := p.Attach(right, AttachAuto)
	if err != nil {
		t.Fatal(err)
	}
	if a.Mode != AttachGeneric || !errors.Is(a.NotNative, ErrFrameSize) {
		t.Errorf("mode %v, because of %v", a.Mode, a.NotNative)
	}
	a.Close()

	s := openSocket(t, Options{Interface: right, UMEM: u, RX: 64})
	if few, err := LoadProgram(ProgramOptions{Queues: 1}); err != nil {
		t.Fatal(err)
	} else {
		defer few.Close()
		s.info.Queue = 1
		if err := few.Register(s); !errors.Is(err, ErrQueue) {
			t.Errorf("a queue beyond the program's map: %v", err)
		}
	}
}

func TestHugePages(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("AF_XDP needs root")
	}
	f, err := Probe("lo")
	if err != nil {
		t.Fatal(err)
	}
	if f.HugePages != nil {
		u, err := NewUMEM(UMEMOptions{Chunks: 1024, HugePages: true})
		if err == nil {
			u.Close()
			t.Skip("huge pages that were not free a moment ago")
		}
		if !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "vm.nr_hugepages=2") {
			t.Errorf("%v", err)
		}
		// A few of them, for this test, if there is memory for them and nobody else looks after them.
		const file = "/proc/sys/vm/nr_hugepages"
		if b, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(b)) != "0" {
			t.Skip("the huge pages are somebody's")
		}
		if err := os.WriteFile(file, []byte("4"), 0o644); err != nil {
			t.Skip(err)
		}
		defer os.WriteFile(file, []byte("0"), 0o644)
		if f, err = Probe("lo"); err != nil || f.HugePagesFree < 2 {
			t.Skip("the kernel has no huge pages to spare")
		}
	}
	newWire(t, 1500, 1)
	p := attachProgram(t, right, ProgramOptions{}, AttachNative)
	u := newTestUMEM(t, UMEMOptions{Chunks: 1024, HugePages: true})
	rx := receiver(t, p, Options{Interface: right, UMEM: u, RX: 64})
	tx := openSocket(t, Options{Interface: left, UMEM: u, TX: 64})
	chunks, _ := u.Take(1)
	tx.Queue(place(u, chunks, frameOptions{}.build(nil)))
	if done, err := tx.Drain(time.Second); !done || err != nil {
		t.Error(done, err)
	}
	if got := collect(t, rx, 1, func([]byte) {}); got != 1 {
		t.Errorf("received %d", got)
	}
}

// capabilities drops all but some of the thread's.
func capabilities(keep ...int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for _, c := range keep {
		data[c/32].Effective |= 1 << (c % 32)
		data[c/32].Permitted |= 1 << (c % 32)
	}
	return unix.Capset(&header, &data[0])
}

// without runs f on a thread that has no capabilities but those given.
func without(t *testing.T, keep []int, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		err := capabilities(keep...)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestPrivileges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("capabilities are dropped from root's")
	}
	u := newTestUMEM(t, UMEMOptions{Chunks: 64})
	// The loopback interface of the test's own namespace, which is there without asking.
	open := func() (*Socket, error) { return Open(Options{Interface: "lo", UMEM: u, RX: 64, Mode: Copy}) }
	expect := func(what string, err error, capability string) {
		t.Helper()
		var e *Error
		if !errors.Is(err, ErrPrivilege) || !errors.As(err, &e) || !strings.Contains(strings.Join(e.Capabilities, " "), capability) ||
			!strings.Contains(err.Error(), "setcap "+SetcapCapabilities) {
			t.Errorf("%s: %v", what, err)
		}
	}
	without(t, nil, func() {
		_, err := open()
		expect("socket", err, "CAP_NET_RAW")
		_, err = LoadProgram(ProgramOptions{})
		expect("program", err, "CAP_BPF")
		if f, err := Probe("lo"); err != nil || !errors.Is(f.AFXDP, ErrPrivilege) || len(f.Missing) != 4 {
			t.Errorf("probe: %v, %v, missing %v", err, f.AFXDP, f.Missing)
		}
	})
	without(t, []int{unix.CAP_BPF, unix.CAP_NET_ADMIN}, func() {
		_, err := open()
		expect("socket", err, "CAP_NET_RAW")
	})
	// What setcap gives is enough for everything. The wire's namespace is this thread's, and so are now its capabilities.
	newWire(t, 1500, 1)
	if err := capabilities(unix.CAP_NET_RAW, unix.CAP_NET_ADMIN, unix.CAP_BPF, unix.CAP_IPC_LOCK); err != nil {
		t.Fatal(err)
	}
	if f, err := Probe(right); err != nil || len(f.Missing) > 0 {
		t.Errorf("missing %v, %v", f.Missing, err)
	}
	p := attachProgram(t, right, ProgramOptions{TCPPorts: []uint16{18515}, Pause: true}, AttachNative)
	receiver(t, p, Options{Interface: right, RX: 64})
	counters(t, p)
}

// TestPrivilegesDropped: once everything is open, nothing more is needed to send, receive, read counters and let go.
func TestPrivilegesDropped(t *testing.T) {
	w := newWire(t, 9000, 1)
	t.Cleanup(func() { // after what is cleaned up by what follows
		if attached(t, w) != 0 {
			t.Error("the program stays attached")
		}
	})
	p := attachProgram(t, right, ProgramOptions{}, AttachNative)
	rx := receiver(t, p, Options{Interface: right, RX: 64, MultiBuffer: true})
	tx := openSocket(t, Options{Interface: left, TX: 64, MultiBuffer: true})
	if err := capabilities(); err != nil {
		t.Fatal(err)
	}
	chunks, _ := tx.UMEM().Take(2)
	tx.Queue(place(tx.UMEM(), chunks, frameOptions{length: 4198}.build(nil)))
	if done, err := tx.Drain(time.Second); !done || err != nil {
		t.Error(done, err)
	}
	if got := collect(t, rx, 1, func([]byte) {}); got != 1 {
		t.Errorf("received %d", got)
	}
	if s := stats(t, rx); s.RxPackets != 1 {
		t.Errorf("%+v", s)
	}
	if c, err := p.Counters(); kernelBefore(release(), 5, 19) {
		t.Logf("before 5.19 counters take CAP_BPF: %v", err)
	} else if err != nil || c[RedirectedRoCEv2] != 1 {
		t.Errorf("%v, %v", c, err)
	}
}

// TestMemlock: a UMEM counts against RLIMIT_MEMLOCK, and the error says so.
func TestMemlock(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("capabilities are dropped from root's")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	small := limit
	small.Cur = 64 << 10
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &small); err != nil {
		t.Skip(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit)
	u := newTestUMEM(t, UMEMOptions{Chunks: 1024})
	without(t, []int{unix.CAP_NET_RAW, unix.CAP_NET_ADMIN, unix.CAP_BPF}, func() {
		s, err := Open(Options{Interface: "lo", UMEM: u, RX: 64, Mode: Copy})
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "RLIMIT_MEMLOCK") {
			t.Errorf("%v", err)
		}
	})
}

func TestProbe(t *testing.T) {
	newWire(t, 9000, 2)
	f, err := Probe(left)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range f.List() {
		t.Logf("%-30s %v", x.Name, x.Err)
	}
	t.Logf("%+v", f)
	if f.Driver != "veth" || f.MTU != 9000 || f.Queues != (Queues{2, 2}) || !f.Up || f.ProgramID != 0 || len(f.Missing) > 0 {
		t.Errorf("%+v", f)
	}
	if !kernelBefore(f.Kernel, 6, 6) {
		for name, err := range map[string]error{"native": f.Native, "fragments": f.NativeFrags, "multi-buffer": f.MultiBuffer, "need-wakeup": f.NeedWakeup, "generic": f.Generic} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !errors.Is(f.ZeroCopy, ErrNotSupported) || !strings.Contains(f.ZeroCopy.Error(), "veth") {
			t.Errorf("zero-copy: %v", f.ZeroCopy)
		}
	}
	p := attachProgram(t, left, ProgramOptions{}, AttachGeneric)
	if f, _ = Probe(left); f.ProgramID == 0 {
		t.Error("the attached program is not seen")
	}
	counters(t, p)

	if !kernelBefore("5.8.1-x", 5, 9) || kernelBefore("5.9", 5, 9) || kernelBefore("6.18.44-fc", 6, 17) || kernelBefore("", 6, 0) {
		t.Error("kernel versions are compared wrongly")
	}
}

// threaded makes the receiving half of a virtual interface run on a kernel thread of its own.
func threaded(t *testing.T, name string) {
	t.Helper()
	// The file is that of the test's namespace only where sysfs is mounted in it; a private mount does not reach anybody else.
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Skip(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := unix.Mount("sysfs", dir, "sysfs", 0, ""); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	if err := os.WriteFile(dir+"/class/net/"+name+"/threaded", []byte(strconv.Itoa(1)), 0o644); err != nil {
		t.Skip(err)
	}
}
