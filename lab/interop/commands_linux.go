package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/rocescope/rocescope/lab"
)

// bench is "rocescope bench", with the interface and the peer filled in.
func bench(operation, options string) part {
	return part{name: "bench " + operation + " " + options, command: true, play: func(s *scene) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		to := s.it
		if strings.Contains(options, "--ipv6") { // the program listens on IPv4, whatever its queue pairs have
			to = lab.Peer.IP4.Addr()
		}
		args := append([]string{"bench", operation, to.String(), "-i", lab.Interface}, strings.Fields(options)...)
		out, err := s.lab.command(ctx, args...)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}}
}

// serve is "rocescope serve", until Linux's program has ended.
func serve(options string) part {
	return part{name: strings.TrimSpace("serve " + options), command: true, play: func(s *scene) error {
		args := append([]string{"serve", "-i", lab.Interface, "-q"}, strings.Fields(options)...)
		cmd := exec.Command(s.lab.rocescope, args...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for !tcpListens() {
			select {
			case err := <-ended:
				return fmt.Errorf("rocescope serve: %w: %s", err, bytes.TrimSpace(said.Bytes()))
			case <-time.After(20 * time.Millisecond):
			}
		}
		close(s.listening)
		select {
		case <-s.over:
		case err := <-ended:
			return fmt.Errorf("rocescope serve ended: %w: %s", err, bytes.TrimSpace(said.Bytes()))
		}
		_ = cmd.Process.Signal(os.Interrupt)
		if err := <-ended; err != nil && cmd.ProcessState.ExitCode() != 130 {
			return fmt.Errorf("rocescope serve: %w: %s", err, bytes.TrimSpace(said.Bytes()))
		}
		return nil
	}}
}

// tcpListens says whether somebody here listens on the port of perftest.
func tcpListens() bool {
	const listening = "0A"
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 3 && f[3] == listening && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", socketPort)) {
				return true
			}
		}
	}
	return false
}
