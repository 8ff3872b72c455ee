package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/testkit"
)

// process is the program running within a namespace: the test binary, which is the program when it is called by its name.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout lockedBuffer
	said   bytes.Buffer // standard error
	lines  chan string
	gone   chan struct{}
}

// lockedBuffer may be looked at while it is written to.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// startIn starts a command line in a namespace and waits until it captures, as it says on standard error.
func startIn(t *testing.T, n *testkit.Namespace, args ...string) *process {
	t.Helper()
	return startProgram(t, n, os.Args[0], args...)
}

func startProgram(t *testing.T, n *testkit.Namespace, program string, args ...string) *process {
	t.Helper()
	p := launchProgram(t, n, program, args...)
	p.until(regexp.MustCompile("^Capturing on"))
	return p
}

// until waits for a line on standard error.
func (p *process) until(line *regexp.Regexp) {
	p.t.Helper()
	for said := range p.lines {
		if line.MatchString(said) {
			return
		}
	}
	p.wait()
	p.t.Fatalf("%q ended without %v:\n%s", p.cmd.Args, line, p.said.String())
}

func launchIn(t *testing.T, n *testkit.Namespace, args ...string) *process {
	t.Helper()
	return launchProgram(t, n, os.Args[0], args...)
}

func launchProgram(t *testing.T, n *testkit.Namespace, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t}
	p.launch(n, program, &p.stdout, args...)
	return p
}

// launch starts a command line, whose standard output goes where it is told.
func (p *process) launch(n *testkit.Namespace, program string, stdout io.Writer, args ...string) {
	t := p.t
	t.Helper()
	p.lines, p.gone = make(chan string, 1000), make(chan struct{})
	p.cmd = exec.Command(program)
	p.cmd.Args = append([]string{"rocescope"}, args...)
	p.cmd.Stdout = stdout
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = w
	if err := n.Start(p.cmd); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		defer close(p.gone)
		defer close(p.lines)
		defer r.Close()
		s := bufio.NewScanner(r)
		for s.Scan() {
			p.said.WriteString(s.Text() + "\n")
			select {
			case p.lines <- s.Text():
			default:
			}
		}
	}()
	t.Cleanup(func() { p.cmd.Process.Kill() })
}

// wait waits for the end and returns the exit code, -1 for a process that was killed.
func (p *process) wait() int {
	<-p.gone
	if err := p.cmd.Wait(); err != nil && p.cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// expect waits for the end and checks the exit code.
func (p *process) expect(code ExitCode) {
	p.t.Helper()
	if got := p.wait(); got != int(code) {
		p.t.Errorf("exit code %d, want %d; it says\n%s", got, int(code), p.said.String())
	}
}

// table is the numbers of the table at the end, by what they are of, and must add up.
func (p *process) table() map[string]uint64 {
	p.t.Helper()
	all := map[string]uint64{}
	var sum, total uint64
	for _, m := range regexp.MustCompile(`(?m)^( +)([\d,]+)  (.*)$`).FindAllStringSubmatch(p.said.String(), -1) {
		n, err := strconv.ParseUint(strings.ReplaceAll(m[2], ",", ""), 10, 64)
		if err != nil {
			p.t.Fatal(err)
		}
		what, _, _ := strings.Cut(m[3], " (")
		all[what] = n
		switch {
		case what == "packets passed the filter":
			total = n
		case len(m[1])+len(m[2]) == 16:
			sum += n
		}
	}
	if len(all) == 0 || sum != total {
		p.t.Errorf("the table does not add up: %d and %d in\n%s", total, sum, p.said.String())
	}
	return all
}

// written reads a capture file to its end, and checks that its frames are the first of those sent.
func written(t *testing.T, file string, sent []testkit.Frame) (n int, err error) {
	t.Helper()
	src, err := captures.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	batch := make([]captures.Frame, 64)
	for {
		got, err := src.ReadBatch(batch)
		for _, f := range batch[:got] {
			if want := sent[n%len(sent)]; !bytes.Equal(f.Data, want.Data) {
				t.Fatalf("%s: packet %d is %x, want %x", file, n+1, f.Data, want.Data)
			}
			n++
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func checkWritten(t *testing.T, file string, sent []testkit.Frame) {
	t.Helper()
	if n, err := written(t, file, sent); n != len(sent) || err != nil {
		t.Errorf("%s has %d packets of %d, %v", file, n, len(sent), err)
	}
}

// writes is a WRITE of so many packets of 1 KiB, and its answer.
func writes(packets int) []testkit.Frame {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.B.Answer(x.A.Write(packets * 1024))
	return x.Frames()
}

func TestCaptureUntilCtrlC(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	file := filepath.Join(t.TempDir(), "a.pcapng")
	p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", file)
	sent := writes(2000)
	lab.A.NewSender().Send(sent)
	p.cmd.Process.Signal(os.Interrupt)
	p.expect(exitInterrupted)
	checkWritten(t, file, sent)
	if n := p.table()["written"]; n != uint64(len(sent)) {
		t.Errorf("%d written, %d sent:\n%s", n, len(sent), p.said.String())
	}
	if st, _ := os.Stat(file); st.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v", st.Mode())
	}
}

// TestCaptureDirections tells what came in from what went out, as tshark reads it too.
func TestCaptureDirections(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	file := filepath.Join(t.TempDir(), "a.pcapng")
	p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", file, "-c", "5")
	sent := writes(5)
	lab.A.NewSender().Send(sent[:3])
	lab.B.NewSender().Send(sent[3:])
	p.expect(exitOK)
	shown := launchIn(t, lab.B, "show", file, "-e", "frame.packet_flags_direction")
	shown.expect(exitOK)
	want := []string{"0x00000001", "0x00000001", "0x00000001", "0x00000002", "0x00000002"}
	if got := strings.Fields(shown.stdout.String()); !slices.Equal(got, want) {
		t.Errorf("rocescope says %q, want %q", got, want)
	}
	for i, row := range testkit.FindTshark(t).Fields(t, file, "frame.packet_flags_direction") {
		if row[0] != want[i] {
			t.Errorf("packet %d: tshark says %s, want %s", i+1, row[0], want[i])
		}
	}
	only := launchIn(t, lab.B, "show", file, "-Y", "frame.packet_flags_direction == 2", "-e", "frame.number")
	only.expect(exitOK)
	if got := strings.Fields(only.stdout.String()); !slices.Equal(got, []string{"4", "5"}) {
		t.Errorf("sent ones are %q", got)
	}
}

func TestCaptureLimits(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	sent := writes(500)
	for _, c := range []struct {
		args    []string
		packets int
		files   int
	}{
		{[]string{"-c", "123"}, 123, 1},
		{[]string{"-a", "packets:123"}, 123, 1},
		{[]string{"-a", "filesize:1"}, 1, 1},
		{[]string{"-b", "packets:100", "-c", "250"}, 250, 3},
		{[]string{"-b", "packets:100", "-a", "files:2"}, 200, 2},
		{[]string{"-b", "filesize:50", "-b", "files:2", "-c", "400"}, -1, 2},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			dir := t.TempDir()
			p := startIn(t, lab.B, append([]string{"capture", "-i", lab.B.Iface, "-w", filepath.Join(dir, "x.pcapng")}, c.args...)...)
			lab.A.NewSender().Send(sent)
			p.expect(exitOK)
			files, _ := filepath.Glob(filepath.Join(dir, "*"))
			if len(files) != c.files {
				t.Fatalf("there are %q, want %d", files, c.files)
			}
			p.table()
			if c.packets < 0 {
				return
			}
			n := 0
			for _, file := range files {
				if c.files > 1 && !regexp.MustCompile(`/x_0000[123]_20\d{12}\.pcapng$`).MatchString(file) {
					t.Errorf("a file is called %s", file)
				}
				got, err := written(t, file, sent[n:])
				if err != nil {
					t.Error(err)
				}
				n += got
			}
			if n != c.packets {
				t.Errorf("%d packets in %q, want %d", n, files, c.packets)
			}
		})
	}
}

// TestCaptureKilled kills the program while it writes: whatever is in the file is whole, and in order, to the last block.
func TestCaptureKilled(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	sent := writes(300)
	for round := range faultRounds(t, 6) {
		file := filepath.Join(t.TempDir(), "a.pcapng")
		p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", file, "--engine", []string{"packet", "xdp"}[round%2])
		sender := lab.A.NewSender()
		for range 200 {
			sender.Send(sent)
			if st, err := os.Stat(file); err == nil && st.Size() > int64(round%12)*200_000 {
				break
			}
		}
		p.cmd.Process.Kill()
		p.wait()
		n, err := written(t, file, sent)
		if err != nil && !errors.Is(err, captures.ErrTruncated) {
			t.Errorf("round %d: %d packets, then %v", round, n, err)
		}
		if round%12 > 0 && n == 0 {
			t.Errorf("round %d: the file is empty", round)
		}
		if a := lab.B.Link().Attrs(); a.Xdp != nil && a.Xdp.Attached || a.Promisc != 0 {
			t.Errorf("round %d: killed, it leaves behind %+v, promiscuous %d", round, a.Xdp, a.Promisc)
		}
	}
}

// TestCaptureFullDisk fills a small disk.
func TestCaptureFullDisk(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	file := filepath.Join(dir, "a.pcapng")
	p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", file)
	sent := writes(1000)
	lab.A.NewSender().Send(sent)
	p.expect(exitFailed)
	n, err := written(t, file, sent)
	if err != nil || n == 0 {
		t.Errorf("%d packets, then %v", n, err)
	}
	said := p.said.String()
	if !strings.Contains(said, "no space left on device") || !strings.Contains(said, fmt.Sprintf("holds %d packets", n)) {
		t.Errorf("with %d packets in the file, it says\n%s", n, said)
	}
	if got := p.table(); got["written"] != uint64(n) || got["lost: they could not be written"] == 0 {
		t.Errorf("%v", got)
	}
}

func TestCaptureInterfaceDeleted(t *testing.T) {
	for _, engine := range []string{"packet", "xdp"} {
		t.Run(engine, func(t *testing.T) {
			lab := testkit.NewLab(t, testkit.LabOptions{})
			file := filepath.Join(t.TempDir(), "a.pcapng")
			p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", file, "--engine", engine)
			sent := writes(300)
			lab.A.NewSender().Send(sent)
			lab.A.Delete()
			p.expect(exitInput)
			checkWritten(t, file, sent)
			if !strings.Contains(p.said.String(), lab.B.Iface+": the interface is gone") {
				t.Errorf("it says\n%s", p.said.String())
			}
			p.table()
		})
	}
}

// buildProgram builds the program as it is shipped. A test binary may have C in it (the race detector does), whose threads
// Go does not know.
func buildProgram(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "rocescope")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// TestCaptureUnderSudo makes files for the user who called sudo, where that user may; else for root.
func TestCaptureUnderSudo(t *testing.T) {
	const user = 65534
	lab := testkit.NewLab(t, testkit.LabOptions{})
	binary := buildProgram(t)
	t.Setenv("SUDO_UID", fmt.Sprint(user))
	t.Setenv("SUDO_GID", fmt.Sprint(user))
	home, err := os.MkdirTemp("", "rocescope-home-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	if err := os.Chown(home, user, user); err != nil {
		t.Fatal(err)
	}
	for dir, owner := range map[string]uint32{home: user, t.TempDir(): 0} {
		p := startProgram(t, lab.B, binary, "capture", "-i", lab.B.Iface, "-w", filepath.Join(dir, "a.pcapng"), "-b", "packets:1", "-c", "3")
		lab.A.NewSender().Send(writes(3))
		p.expect(exitOK)
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		if len(files) != 3 {
			t.Errorf("there are %q, want 3 files", files)
		}
		for _, file := range files {
			var st unix.Stat_t
			if err := unix.Stat(file, &st); err != nil || st.Uid != owner || st.Gid != owner {
				t.Errorf("%s belongs to %d:%d, want %d (%v)", file, st.Uid, st.Gid, owner, err)
			}
		}
	}
}

// TestCaptureDropsPrivileges looks at the capabilities of every thread of a capture, which goes on all the same.
func TestCaptureDropsPrivileges(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	binary := buildProgram(t)
	for _, engine := range []string{"packet", "xdp"} {
		t.Run(engine, func(t *testing.T) {
			dir := t.TempDir()
			p := startProgram(t, lab.B, binary, "capture", "-i", lab.B.Iface, "--engine", engine,
				"-w", filepath.Join(dir, "a.pcapng"), "-b", "packets:1", "-c", "3")
			p.checkCapabilities()
			lab.A.NewSender().Send(writes(3))
			p.expect(exitOK)
			if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 3 {
				t.Errorf("without capabilities it makes the files %q", files)
			}
			if got := p.table(); got["written"] != 3 {
				t.Errorf("it counts %v", got)
			}
		})
	}
}

// checkCapabilities looks at every thread of a process, none of which has any left.
func (p *process) checkCapabilities() {
	p.t.Helper()
	status, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.cmd.Process.Pid))
	if len(status) == 0 {
		p.t.Fatal("there are no threads")
	}
	for _, file := range status {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		for _, line := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1"} {
			if !strings.Contains(string(text), line) {
				p.t.Errorf("%s (%v) does not have %q", file, err, line)
			}
		}
	}
}

// TestCaptureWithoutPrivilege runs the program as nobody.
func TestCaptureWithoutPrivilege(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	dir, err := os.MkdirTemp("", "rocescope-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary := filepath.Join(dir, "rocescope")
	data, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = errors.Join(os.WriteFile(binary, data, 0o755), os.Chmod(dir, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"capture", "-i", lab.B.Iface, "-w", "/dev/null"},
		{"capture", "-i", lab.B.Iface, "-w", "/dev/null", "--engine", "xdp"},
		{"analyze", "-i", lab.B.Iface},
		{"show", "-i", lab.B.Iface},
		{lab.B.Iface},
	} {
		setcap := "sudo setcap cap_net_raw,cap_net_admin+ep " + binary
		if slices.Contains(args, "xdp") {
			setcap = "sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep " + binary
		}
		cmd := exec.Command(binary, args...)
		cmd.Dir = dir
		var said bytes.Buffer
		cmd.Stderr = &said
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := lab.B.Start(cmd); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if cmd.ProcessState.ExitCode() != int(exitUnavailable) || !strings.Contains(said.String(), setcap) {
			t.Errorf("%q ends with %v and says\n%s", args, cmd.ProcessState, said.String())
		}
	}
}

func TestCaptureRefusals(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code ExitCode
		says string
	}{
		{[]string{"-i", "veth1", "-w", "/dev/null"}, exitUnavailable, "no such interface; did you mean veth0? There are lo, veth0"},
		{[]string{"-i", "lo", "-w", "/dev/null"}, exitUnavailable, "ip link set lo up"},
		{[]string{"-i", lab.B.Iface, "-w", there}, exitFailed, "--force overwrites it"},
		{[]string{"-i", lab.B.Iface, "-w", "/nowhere/x"}, exitFailed, "no such file or directory"},
		{[]string{"-i", lab.B.Iface, "-w", "/dev/null", "--time-stamp-type", "adapter"}, exitUnavailable, "not offered here"},
		{[]string{"-i", lab.B.Iface, "-w", "/dev/null", "--engine", "xdp", "--rings", "2"}, exitUsage, "--rings is about the engine packet"},
	} {
		p := launchIn(t, lab.B, append([]string{"capture"}, c.args...)...)
		p.expect(c.code)
		if !strings.Contains(p.said.String(), c.says) {
			t.Errorf("%q says\n%swant %q", c.args, p.said.String(), c.says)
		}
	}
	if b, _ := os.ReadFile(there); string(b) != "precious" {
		t.Errorf("the file that was there is %q", b)
	}
}

func TestDoctor(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500, Queues: 3})
	for _, c := range []struct {
		args []string
		code ExitCode
		says []string
	}{
		{nil, exitOK, []string{"kernel", "privileges", "Landlock", "veth0", "rocescope doctor IFACE"}},
		{[]string{"veth0"}, exitOK, []string{
			"up", "1500: packets up to RoCE MTU 1024 fit", "sudo ip link set veth0 mtu 4200", "no RDMA device", "host's clock", "native",
			"3 to receive, of 3", "xdp with 3 threads", "zero-copy is not supported", "sudo ethtool -K veth0 rxvlan off", "Not seen", "huge pages", "million packets/s",
		}},
		{[]string{"--nics"}, exitOK, []string{"## NVIDIA ConnectX", "(`ice`)", "[source](https://"}},
		{[]string{"lo"}, exitUnavailable, []string{"down", "sudo ip link set lo up"}},
		{[]string{"veth1"}, exitUnavailable, []string{"did you mean veth0?"}},
	} {
		p := launchIn(t, lab.B, append([]string{"doctor"}, c.args...)...)
		p.expect(c.code)
		for _, says := range c.says {
			if out := p.stdout.String() + p.said.String(); !strings.Contains(strings.Join(strings.Fields(out), " "), says) { // lines are wrapped
				t.Errorf("doctor %v does not say %q:\n%s", c.args, says, out)
			}
		}
	}
}

// lossy is a WRITE that lost a packet, and what came of it.
func lossy() []testkit.Frame {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.Connect()
	for range 3 {
		x.B.Answer(x.A.Write(2048))
	}
	m := x.A.Write(8192)
	m.Packets[3].Drop()
	x.B.NAK(m.First.Add(3), 0)
	m.ResendFrom(3)
	x.B.Answer(m)
	x.B.Answer(x.A.Write(2048))
	return x.Frames()
}

// TestCaptureFindings analyzes while it captures.
func TestCaptureFindings(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	file, log := filepath.Join(t.TempDir(), "a.pcapng"), filepath.Join(t.TempDir(), "a.jsonl")
	sent := lossy()
	p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", file, "--findings", "--live", "--events", log)
	lab.A.NewSender().Send(sent)
	const finds = "lost_before_tap: 1 gap was answered by a sequence NAK (first: 1 packet at PSN 0x000009, missing since frame 16); 5 packets"
	for !strings.Contains(p.stdout.String(), finds) { // while it goes on, and no more packets come
		select {
		case <-p.gone:
			t.Fatalf("it finds\n%s", p.stdout.String())
		case <-time.After(time.Millisecond):
		}
	}
	if out := p.stdout.String(); !strings.Contains(out, "10.0.0.2 → 10.0.0.1 QP 0x000011 PSN 9]") {
		t.Errorf("it finds\n%s", out)
	}
	if so, err := os.ReadFile(log); err != nil || !strings.Contains(string(so), `"type":"nak"`) {
		t.Errorf("while it goes on, the event log has %v\n%s", err, so)
	}
	p.cmd.Process.Signal(os.Interrupt)
	p.expect(exitInterrupted)
	checkWritten(t, file, sent)
	if out := runOK(t, "diff", log, file, "--fail"); !strings.Contains(string(out), "The logs tell the same.") {
		t.Errorf("the log against the file: %s", out)
	}
	if !strings.Contains(p.said.String(), "1 connection, 5 messages completed") {
		t.Errorf("it says\n%s", p.said.String())
	}

	p = startIn(t, lab.B, "capture", "-i", lab.B.Iface, "--findings", "-c", fmt.Sprint(len(sent)))
	lab.A.NewSender().Send(sent)
	p.expect(exitOK)
	if got := p.table()["looked at"]; got != uint64(len(sent)) || p.stdout.String() == "" {
		t.Errorf("without a file: %d, %s", got, p.stdout.String())
	}
}

// TestCaptureToPipe writes to standard output, whose reader has all of it.
func TestCaptureToPipe(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", "-")
	sent := writes(300)
	lab.A.NewSender().Send(sent)
	p.cmd.Process.Signal(os.Interrupt)
	p.expect(exitInterrupted)
	file := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(file, []byte(p.stdout.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	checkWritten(t, file, sent)
}

// sendUntil sends again and again until the program has ended, as one that prints nothing cannot say when it begins.
func sendUntil(t *testing.T, lab *testkit.Lab, p *process, frames []testkit.Frame) {
	t.Helper()
	sender := lab.A.NewSender()
	for {
		select {
		case <-p.gone:
			return
		case <-time.After(10 * time.Millisecond):
			sender.Send(frames)
		}
	}
}

func TestLookAtInterface(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	sent := writes(20)
	p := launchIn(t, lab.B, "show", "-i", lab.B.Iface, "-c", "50", "-e", "infiniband.bth.opcode")
	sendUntil(t, lab, p, sent)
	p.expect(exitOK)
	if n := strings.Count(p.stdout.String(), "\n"); n != 50 {
		t.Errorf("it shows %d packets:\n%s", n, p.stdout.String())
	}
	p = launchIn(t, lab.B, "analyze", "-i", lab.B.Iface, "-a", "packets:50", "-f", "rocev2")
	sendUntil(t, lab, p, sent)
	p.expect(exitOK)
	if !strings.Contains(p.stdout.String(), "50 packets") {
		t.Errorf("it says\n%s", p.stdout.String())
	}
	p = launchIn(t, lab.B, "analyze", "-i", lab.B.Iface, "-a", "duration:0.2", "--json")
	sendUntil(t, lab, p, sent)
	p.expect(exitOK)
	if !strings.Contains(p.stdout.String(), `"rocescope.analysis/1"`) {
		t.Errorf("it says\n%s", p.stdout.String())
	}
	p = launchIn(t, lab.B, "show", "-i", lab.B.Iface)
	sender := lab.A.NewSender()
	for p.stdout.String() == "" {
		sender.Send(sent)
		time.Sleep(10 * time.Millisecond)
	}
	p.cmd.Process.Signal(os.Interrupt)
	p.expect(exitInterrupted)
	if out := p.stdout.String(); !strings.HasSuffix(out, "\n") {
		t.Errorf("interrupted, it ends with %q", out[max(0, len(out)-50):])
	}
}
