package inline

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rocescope/rocescope/lab"
)

const patience = 90 * time.Second

// Pair is two guests, and the program that joins them.
type Pair struct {
	Guests    [2]*lab.Guest
	seats     [2]lab.Seat
	rocescope string
	folder    string
}

// Result is what came of a row.
type Result struct {
	Row
	Ran      bool
	Failed   string
	Seconds  float64
	Packets  int
	Effect                       // on the packets, as found
	Took     time.Duration       // the longest way of a packet from tap to tap
	Differed map[string]int64    // by the comparison of both captures
	Slowest  time.Duration       // and by that, where the row has a delay
	Saw      [2]map[string]int64 // by flows, in the capture of each tap
	Moved    [2]map[string]int64 // by the counters of each guest
	Console  [2]string
}

// Open boots two guests.
func Open(image *lab.Image, rocescope string) (p *Pair, err error) {
	p = &Pair{seats: [2]lab.Seat{{N: 0, Bare: true}, {N: 1, Bare: true}}}
	if p.rocescope, err = exec.LookPath(rocescope); err != nil {
		return nil, fmt.Errorf("%w: make build makes it", err)
	}
	if p.folder, err = os.MkdirTemp(image.Scratch(), "inline-"); err != nil {
		return nil, err
	}
	if p.Guests, err = lab.BootPair(image, p.seats); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close ends both.
func (p *Pair) Close() {
	for _, g := range p.Guests {
		if g != nil {
			g.Close()
		}
	}
	os.RemoveAll(p.folder)
}

// start starts a command of rocescope's that runs until it is interrupted.
func (p *Pair) start(args ...string) (end func() ([]byte, error), err error) {
	cmd := exec.Command(p.rocescope, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() ([]byte, error) {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 130 {
			return nil, fmt.Errorf("rocescope %s: %w: %s", args[0], err, bytes.TrimSpace(said.Bytes()))
		}
		return out.Bytes(), nil
	}, nil
}

// appears waits for a file.
func appears(file string) error {
	for range 2000 {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s was not begun", filepath.Base(file))
}

// Run runs one row.
func (p *Pair) Run(row *Row, keep string) Result {
	r := Result{Row: *row, Ran: true}
	began := time.Now()
	if err := p.run(&r, keep); err != nil {
		r.Failed = err.Error()
	}
	r.Seconds = time.Since(began).Seconds()
	return r
}

func (p *Pair) run(r *Result, keep string) error {
	var ends []func() ([]byte, error)
	files := [3]string{}
	for i, s := range p.seats {
		files[i] = filepath.Join(p.folder, s.Tap()+".pcapng")
		os.Remove(files[i])
		end, err := p.start("capture", "-i", s.Tap(), "-w", files[i], "-q")
		if err != nil {
			return err
		}
		ends = append(ends, end)
	}
	files[2] = filepath.Join(p.folder, "wire.pcapng")
	args := []string{"wire", p.seats[0].Interface(), p.seats[1].Interface(), "--json", "-q", "-w", files[2], "--force"}
	if r.Rule != "" {
		args = append(args, "--fault", r.Rule)
	}
	wire, err := p.start(args...)
	if err != nil {
		return err
	}
	err = errors.Join(appears(files[0]), appears(files[1]), appears(files[2]))
	before := [2]map[string]int64{p.counters(0), p.counters(1)}
	if err == nil {
		err = p.programs(r)
	}
	time.Sleep(300 * time.Millisecond) // last frames on their way
	for i := range p.Guests {
		r.Moved[i] = p.counters(i)
		for name, n := range before[i] {
			if r.Moved[i][name] -= n; r.Moved[i][name] == 0 {
				delete(r.Moved[i], name)
			}
		}
	}
	text, ended := wire()
	err = errors.Join(err, ended)
	for _, end := range ends {
		_, ended := end()
		err = errors.Join(err, ended)
	}
	if keep != "" {
		for _, f := range files {
			if data, read := os.ReadFile(f); read == nil {
				_ = os.WriteFile(filepath.Join(keep, strings.ReplaceAll(r.Name, " ", "-")+"-"+filepath.Base(f)), data, 0o644)
			}
		}
	}
	if err != nil {
		return err
	}
	var taps [2]*tap
	for i := range taps {
		if taps[i], err = read(files[i]); err != nil {
			return err
		}
	}
	d, err := compare([2]string(files[:2]))
	if err != nil {
		return err
	}
	return errors.Join(r.judgeWire(text), r.judgePackets(taps), r.judgeDiff(d), r.judgeFlows(taps), r.judgeCounters())
}

// programs runs the server, then the client.
func (p *Pair) programs(r *Result) error {
	it := p.seats[1].Side().IP4.Addr().String()
	server, err := p.Guests[1].Start(strings.Fields(strings.ReplaceAll(r.Server, "{it}", it))...)
	if err != nil {
		return err
	}
	listens := "ss -Hltn | grep -q 18515"
	if strings.HasPrefix(r.Server, "rping") || strings.Contains(r.Server, " -R ") {
		listens = "rdma resource show cm_id | grep -q LISTEN"
	}
	if _, err := p.Guests[1].Run(time.Minute, "sh", "-c", "i=0; until "+listens+"; do i=$((i+1)); [ $i -lt 200 ] || exit 1; sleep 0.1; done"); err != nil {
		server.Kill()
		return fmt.Errorf("the server does not listen: %w\n%s", err, server.Output())
	}
	said, err := p.Guests[0].Run(patience, strings.Fields(strings.ReplaceAll(r.Client, "{it}", it))...)
	r.Console[0] = said
	if err != nil {
		server.Kill()
		return fmt.Errorf("%w\n%s\nthe server:\n%s", err, said, server.Output())
	}
	r.Console[1], err = server.Wait(patience)
	if err != nil && strings.HasPrefix(r.Server, "rping") { // its server ends with an error when the client leaves
		var exit *lab.ExitError
		if errors.As(err, &exit) {
			err = nil
		}
	}
	return err
}

func (p *Pair) counters(i int) map[string]int64 {
	text, err := p.Guests[i].Run(time.Minute, "sh", "-c", "grep -H . /sys/class/infiniband/rxe0/ports/1/hw_counters/*")
	all := map[string]int64{}
	if err != nil {
		return all
	}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseInt(value, 10, 64); ok && err == nil {
			all[filepath.Base(name)] = n
		}
	}
	delete(all, "lifespan")
	return all
}
