package xsk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// LiveFrames makes frames inside the kernel and sends them out of an interface: the fastest sender there is on a virtual link,
// and as fast as the driver redirects on a real one. One goroutine uses it; several of them each have their own.
//
// The kernel hands over pages, not copies, and uses them again: an XDP program at the far end of a virtual link that changes
// what it receives spoils frames to come, in the bytes that all of them share.
type LiveFrames struct {
	options LiveOptions
	plan    *livePlan
	device  *ebpf.Map
	maps    []*ebpf.Map
	program *ebpf.Program
	state   *ebpf.Memory
	closed  bool
}

// OpenLiveFrames assembles the program, loads it, and has it run once without sending, so that privileges may be dropped then.
func OpenLiveFrames(o LiveOptions) (*LiveFrames, error) {
	plan, err := planLive(&o)
	if err != nil {
		return nil, err
	}
	// The plan keeps what it needs of the templates; without them the options are small.
	l := &LiveFrames{options: o, plan: plan}
	if err := l.checkInterface(); err != nil {
		return nil, err
	}
	unlimitMemlock()
	if err := l.load(); err != nil {
		l.Close()
		return nil, err
	}
	if err := l.Prime(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// checkInterface looks for what would only be seen as frames that do not arrive.
func (l *LiveFrames) checkInterface() error {
	const op = "send live frames through"
	name := l.options.Interface
	iface, err := interfaceByName(op, name)
	if err != nil {
		return err
	}
	if iface.Flags&net.FlagUp == 0 {
		return &Error{Op: op, Where: name, Kind: ErrDown, Hint: "ip link set " + name + " up"}
	}
	for i, k := range l.plan.kinds {
		tagged := binary.BigEndian.Uint16(l.options.QPs[0].Frames[i][12:])
		room := iface.MTU + 14
		if tagged == etherTypeVLAN || tagged == etherTypeService {
			room += 4
		}
		if k.length > room {
			return &Error{
				Op: op, Where: name, Kind: ErrFrameSize, Err: fmt.Errorf("a frame of %d bytes, and the MTU is %d", k.length, iface.MTU),
				Hint: fmt.Sprintf("ip link set %s mtu %d, at both ends", name, k.length-room+iface.MTU),
			}
		}
	}
	f, err := Probe(name)
	if err != nil {
		return err
	}
	if errors.Is(f.Redirect, ErrNotSupported) {
		return &Error{Op: op, Where: name, Kind: ErrNotSupported, Err: f.Redirect}
	}
	return nil
}

func (l *LiveFrames) load() (err error) {
	fail := func(op string, err error) error {
		return failure(op, l.options.Interface, err, "CAP_BPF", "CAP_NET_ADMIN")
	}
	if l.device, err = ebpf.NewMap(&ebpf.MapSpec{Name: "device", Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 1}); err != nil {
		return fail("create a map of devices for", err)
	}
	iface, err := interfaceByName("send live frames through", l.options.Interface)
	if err != nil {
		return err
	}
	if err := l.device.Put(uint32(0), uint32(iface.Index)); err != nil {
		return fail("redirect frames to", err)
	}
	state, err := l.globals("state", l.plan.state)
	if err != nil {
		return fail("create the state of live frames for", err)
	}
	tables, err := l.globals("tables", l.plan.tables)
	if err != nil {
		return fail("create the tables of live frames for", err)
	}
	if l.state, err = state.Memory(); err != nil {
		return fail("map the state of live frames for", err)
	}
	if l.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "rocescope_live", Type: ebpf.XDP, License: "Apache-2.0", AttachType: ebpf.AttachXDP,
		Instructions: assembleLive(l.plan, l.device.FD(), state.FD(), tables.FD()),
	}); err != nil {
		return fail("load the program of live frames for", err)
	}
	return nil
}

// globals makes a map of one value, as compilers do for a program's variables.
func (l *LiveFrames) globals(name string, value []byte) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(value)), MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: value}},
	})
	if err == nil {
		l.maps = append(l.maps, m)
	}
	return m, err
}

// run has the kernel go through the program n times.
func (l *LiveFrames) run(n int) error {
	_, err := l.program.Run(&ebpf.RunOptions{
		Data: l.plan.page, Repeat: uint32(n), Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES, BatchSize: uint32(l.options.Batch),
	})
	return err
}

// Prime runs the program without sending anything. From then on Run needs no privileges. OpenLiveFrames does it.
func (l *LiveFrames) Prime() error {
	if l.closed {
		return l.fail(ErrClosed, nil, "")
	}
	if err := l.until(0); err != nil {
		return err
	}
	err := l.run(1)
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, ebpf.ErrNotSupported) {
		limit, probe := MaxLiveFrame()
		if probe != nil {
			return probe
		}
		if len(l.plan.page) > limit {
			return l.fail(ErrFrameSize, fmt.Errorf("frames of %d bytes, and this kernel makes live frames of at most %d", len(l.plan.page), limit),
				"use a smaller path MTU, or another port")
		}
	}
	return failure("make live frames for", l.options.Interface, err, "CAP_BPF", "CAP_NET_ADMIN")
}

// The kernel patches itself before and after a call that makes more than one frame, so that the program is called directly.
// That takes up to a millisecond and a half in a virtual machine.
const (
	runLength = 1 << 17 // frames of one call: so many that this hardly shows, and so few that it is back after some ten milliseconds
	runSingly = 32      // frames that cost less one by one
)

// Run sends the next n frames, and returns how many the interface was given. Frames that it then drops, because the far end is
// too slow, count as sent: only its own counters tell.
func (l *LiveFrames) Run(n int) (sent int, err error) {
	if l.closed {
		return 0, l.fail(ErrClosed, nil, "")
	}
	before, err := l.Stats()
	if err != nil {
		return 0, err
	}
	for sent < n {
		// The program counts: a run that a signal ends early begins again, and must not send anything twice.
		todo := min(n-sent, runLength)
		if n <= runSingly {
			todo = 1
		}
		if err := l.until(before.Sent + uint64(sent+todo)); err != nil {
			return sent, err
		}
		failed := l.run(todo)
		now, err := l.Stats()
		if err != nil {
			return sent, err
		}
		progress := int(now.Sent-before.Sent) - sent
		sent += progress
		switch {
		case now.Gone > before.Gone:
			return sent, l.fail(ErrGone, nil, "")
		case failed != nil:
			return sent, failure("send live frames through", l.options.Interface, failed, "CAP_BPF", "CAP_NET_ADMIN")
		case progress == 0:
			return sent, l.fail(nil, errors.New("the kernel ran the program, and it sent nothing"), "")
		}
	}
	return sent, nil
}

func (l *LiveFrames) fail(kind, err error, hint string) error {
	return &Error{Op: "send live frames through", Where: l.options.Interface, Kind: kind, Err: err, Hint: hint}
}

// until has the program stop when it has sent so many frames.
func (l *LiveFrames) until(sent uint64) error {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], sent)
	if _, err := l.state.WriteAt(b[:], stateUntil); err != nil {
		return l.fail(nil, err, "")
	}
	return nil
}

// Stats says what was sent so far. It may be called from anywhere, until Close.
func (l *LiveFrames) Stats() (s LiveStats, err error) {
	var b [16]byte
	if _, err := l.state.ReadAt(b[:], stateSent); err != nil {
		return s, l.fail(nil, err, "")
	}
	return LiveStats{Sent: binary.NativeEndian.Uint64(b[:]), Gone: binary.NativeEndian.Uint64(b[8:])}, nil
}

// PSN is the PSN that the queue pair's next frame will have.
func (l *LiveFrames) PSN(qp int) (uint32, error) {
	var b [4]byte
	if qp < 0 || qp >= len(l.options.QPs) {
		return 0, l.fail(nil, fmt.Errorf("there is no queue pair %d", qp), "")
	}
	if _, err := l.state.ReadAt(b[:], int64(stateHeader+qp*l.plan.record+recordPSN)); err != nil {
		return 0, l.fail(nil, err, "")
	}
	return binary.NativeEndian.Uint32(b[:]), nil
}

// Close gives program and maps back to the kernel.
func (l *LiveFrames) Close() error {
	l.closed = true
	var errs []error
	if l.program != nil {
		errs = append(errs, l.program.Close())
	}
	if l.device != nil {
		errs = append(errs, l.device.Close())
	}
	for _, m := range l.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// MaxLiveFrame finds out how long a live frame may be on this kernel, by trying.
var MaxLiveFrame = sync.OnceValues(func() (int, error) {
	const op = "probe live frames"
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpDrop), asm.Return()},
	})
	if err != nil {
		return 0, failure(op, "", err, "CAP_BPF", "CAP_NET_ADMIN")
	}
	defer p.Close()
	try := func(n int) error {
		_, err := p.Run(&ebpf.RunOptions{Data: make([]byte, n), Repeat: 1, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES})
		return err
	}
	fits, tooLong := 64, 1<<16
	if err := try(fits); err != nil {
		if errors.Is(err, unix.EINVAL) || errors.Is(err, ebpf.ErrNotSupported) {
			return 0, &Error{Op: op, Kind: ErrNotSupported, Err: &UnsupportedError{Feature: "making live frames (BPF_F_TEST_XDP_LIVE_FRAMES)", Since: "5.18"}}
		}
		return 0, failure(op, "", err, "CAP_BPF", "CAP_NET_ADMIN")
	}
	for tooLong-fits > 1 {
		if half := (fits + tooLong) / 2; try(half) == nil {
			fits = half
		} else {
			tooLong = half
		}
	}
	return fits, nil
})
