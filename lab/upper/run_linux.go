package upper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rocescope/rocescope/lab"
)

// patience with a script: the guests have no fast processor.
const patience = 3 * time.Minute

// leastCapture is more than a capture has in which there is no packet.
const leastCapture = 1000

// Pair is two guests on one wire. The first serves.
type Pair struct {
	Guests    [2]*lab.Guest
	rocescope string
	folder    string
}

// Result is what came of a row.
type Result struct {
	Row
	Ran     bool
	Failed  string
	Seconds float64
	Bytes   int64
	Console [2]string // of the target and of the host
}

// Open boots both guests and joins their cables.
func Open(image *lab.Image, rocescope string) (p *Pair, err error) {
	p = &Pair{}
	if p.rocescope, err = exec.LookPath(rocescope); err != nil {
		return nil, fmt.Errorf("%w: make build makes it", err)
	}
	if p.folder, err = os.MkdirTemp(image.Scratch(), "upper-"); err != nil {
		return nil, err
	}
	seats := [2]lab.Seat{{N: 0, Bare: true}, {N: 1, Bare: true}}
	if p.Guests, err = lab.BootPair(image, seats); err != nil {
		p.Close()
		return nil, err
	}
	if err := lab.Join(seats[0], seats[1]); err != nil {
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

// Run runs a row and puts its capture into a folder.
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
	var err error
	if r.Console[0], err = p.script(0, r.Target); err != nil {
		return err
	}
	file := filepath.Join(p.folder, r.Name+".pcapng")
	end, err := p.capture(file, r.Filter)
	if err != nil {
		return err
	}
	r.Console[1], err = p.script(1, r.Host)
	if err == nil && !strings.Contains(r.Console[1], r.Says) {
		err = fmt.Errorf("the host does not say %q", r.Says)
	}
	time.Sleep(time.Second) // last frames on their way
	err = errors.Join(err, end())
	if r.Undo != "" {
		_, undone := p.script(0, r.Undo)
		err = errors.Join(err, undone)
	}
	data, read := os.ReadFile(file)
	r.Bytes = int64(len(data))
	if err == nil && len(data) < leastCapture {
		err = errors.New("nothing was captured")
	}
	if keep != "" && read == nil {
		read = os.WriteFile(filepath.Join(keep, filepath.Base(file)), data, 0o644)
	}
	return errors.Join(err, read)
}

// script runs a script in a guest.
func (p *Pair) script(guest int, text string) (string, error) {
	text = strings.NewReplacer(
		"{target}", lab.Seat{N: 0}.Side().IP4.Addr().String(),
		"{host}", lab.Seat{N: 1}.Side().IP4.Addr().String()).Replace(text)
	out, err := p.Guests[guest].Run(patience, "sh", "-ec", text)
	if err != nil {
		return out, fmt.Errorf("the %s's script: %w\n%s\nits kernel: %s", []string{"target", "host"}[guest], err, out, p.Guests[guest].Console())
	}
	return out, nil
}

// capture catches what passes by the target's tap, until it is ended.
func (p *Pair) capture(file, filter string) (end func() error, err error) {
	cmd := exec.Command(p.rocescope, "capture", "-i", lab.Seat{N: 0}.Tap(), "-f", filter, "-w", file, "-q", "--force")
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end = func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 130 {
			return fmt.Errorf("rocescope capture: %w: %s", err, bytes.TrimSpace(said.Bytes()))
		}
		return nil
	}
	for range 2000 {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			return end, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, errors.Join(fmt.Errorf("%s was not begun", filepath.Base(file)), end())
}
