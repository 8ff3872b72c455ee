package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rocescope/rocescope/lab"
	"github.com/rocescope/rocescope/lab/play"
)

// Run runs one row. keep is where the capture of a row that fails goes; empty: nowhere.
func (l *Lab) Run(row *Row, keep string) Result {
	r := Result{Row: *row, Ran: true}
	began := time.Now()
	file := filepath.Join(l.folder, "row.pcapng")
	if err := l.run(&r, file); err != nil {
		r.Failed = err.Error()
		if keep != "" {
			r.Capture = filepath.Join(keep, row.fileName())
			if err := copyFile(r.Capture, file); err != nil {
				r.Failed += "\nits capture cannot be kept: " + err.Error()
			}
		}
	}
	r.Seconds = time.Since(began).Seconds()
	return r
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

func (r *Row) fileName() string {
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(r.Subject+" "+r.Linux+" "+r.Wire.String()), "-")
	ip := 4
	if r.IPv6 {
		ip = 6
	}
	return fmt.Sprintf("%s-ipv%d-%s.pcapng", r.Role, ip, strings.Trim(name[:min(len(name), 80)], "-"))
}

func (l *Lab) run(r *Result, file string) error {
	undo, err := l.wire(r.Wire)
	if err != nil {
		return err
	}
	before, err := l.counters("before")
	if err != nil {
		return errors.Join(err, undo())
	}
	stop, err := l.capture(file)
	if err != nil {
		return errors.Join(err, undo())
	}
	played := l.play(r)
	caught := stop()
	after, err := l.counters("after")
	if err = errors.Join(caught, undo(), err); err != nil {
		return errors.Join(played, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, err := l.command(ctx, "analyze", "--json", "--shadow", file,
		"--counters", before+","+after, "--counters-host", r.expand("{it}"))
	if err != nil {
		return errors.Join(played, err)
	}
	return errors.Join(played, judge(r, []byte(text)))
}

// play runs both programs, the server first.
func (l *Lab) play(r *Result) error {
	s := &scene{row: &r.Row, lab: l, us: lab.Host.IP4.Addr(), it: lab.Peer.IP4.Addr(), listening: make(chan struct{}), over: make(chan struct{})}
	if r.IPv6 {
		s.us, s.it = lab.Host.IP6.Addr(), lab.Peer.IP6.Addr()
	}
	if !r.Ours.command {
		node, err := play.Open(play.Options{Interface: lab.Interface, MAC: l.Guest.Cable.MAC, Addr: s.us, PeerMAC: lab.PeerMAC, MTU: r.Ours.mtu, Timeout: uint8(r.timeout())})
		if err != nil {
			return err
		}
		defer node.Close()
		s.node = node
	}
	ours := make(chan error, 1)
	if r.Role == Server {
		go func() { ours <- r.Ours.play(s) }()
		select {
		case <-s.listening:
		case err := <-ours:
			return fmt.Errorf("rocescope: %w", err)
		}
	}
	linux, err := l.Guest.Start(r.command()...)
	if err != nil {
		return err
	}
	if r.Role == Client {
		if r.Listens != "" {
			if err := l.listens(r.Listens, linux); err != nil {
				linux.Kill()
				return fmt.Errorf("%w; it says:\n%s", err, linux.Output())
			}
		}
		go func() { ours <- r.Ours.play(s) }()
	}
	if r.Stays {
		err := ourEnd(ours)
		linux.Kill()
		r.Console = linux.Output()
		return err
	}
	wait := patience
	if r.Script != "" {
		wait += firstWords
	}
	said, err := linux.Wait(wait)
	r.Console = said
	close(s.over)
	return errors.Join(r.judgeProgram(said, err), ourEnd(ours))
}

// command is what is started in the guest.
func (r *Row) command() []string {
	words := strings.Fields(r.expand(r.Linux))
	if r.Script != "" {
		words = append([]string{"python3", "-u", "-c", r.Script}, words[1:]...)
	}
	return words
}

func ourEnd(ours <-chan error) error {
	select {
	case err := <-ours:
		if err != nil {
			return fmt.Errorf("rocescope: %w", err)
		}
		return nil
	case <-time.After(patience):
		return errors.New("rocescope: its part did not end, though the other did")
	}
}

// complains are words of programs that find something wrong and end well nevertheless.
var complains = regexp.MustCompile(`invalid data|mismatch|failed|Failed|Couldn't|error event`)

// judgeProgram says what is wrong with how Linux's program ended and with what it printed.
func (r *Result) judgeProgram(said string, err error) error {
	var exit *lab.ExitError
	switch {
	case r.Fails && errors.As(err, &exit):
		err = nil
	case r.Fails && err == nil:
		err = errors.New("the program in the guest ended well, which it should not")
	}
	if !regexp.MustCompile(r.Says).MatchString(said) {
		err = errors.Join(err, fmt.Errorf("the program in the guest does not say %q", r.Says))
	}
	if word := complains.FindString(said); word != "" && !r.Fails {
		err = errors.Join(err, fmt.Errorf("the program in the guest says %q", word))
	}
	if err != nil {
		return fmt.Errorf("%w; it says:\n%s", err, strings.TrimSpace(said))
	}
	return nil
}
