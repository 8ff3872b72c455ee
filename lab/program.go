package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/rocescope/rocescope/lab/control"
)

// agent is the laboratory's end of the line to the guest's agent.
type agent struct {
	conn net.Conn
	up   chan string
	mu   sync.Mutex
	last uint64
	runs map[uint64]*Program
}

func newAgent(conn net.Conn) *agent {
	a := &agent{conn: conn, up: make(chan string, 1), runs: map[uint64]*Program{}}
	go a.listen()
	return a
}

func (a *agent) listen() {
	in := bufio.NewReader(a.conn)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			a.hangUp()
			return
		}
		var said control.Answer
		if json.Unmarshal(line, &said) != nil {
			continue
		}
		if said.Up != "" {
			a.up <- said.Up
			continue
		}
		a.mu.Lock()
		p := a.runs[said.ID]
		if said.Done {
			delete(a.runs, said.ID)
		}
		a.mu.Unlock()
		if p != nil {
			p.take(said)
		}
	}
}

// hangUp ends what runs: the guest is gone.
func (a *agent) hangUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, p := range a.runs {
		delete(a.runs, id)
		p.take(control.Answer{Done: true, Exit: -1, Err: "the guest is gone"})
	}
}

func (a *agent) say(r control.Request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = a.conn.Write(append(line, '\n'))
	return err
}

// Program is a program that runs in the guest, or ran.
type Program struct {
	Args []string
	a    *agent
	id   uint64
	done chan struct{}
	mu   sync.Mutex
	out  strings.Builder
	exit int
	err  string
}

// Start starts a program in the guest.
func (a *agent) Start(args ...string) (*Program, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	p := &Program{Args: args, a: a, id: a.last, done: make(chan struct{})}
	a.runs[p.id] = p
	if err := a.say(control.Request{ID: p.id, Run: args}); err != nil {
		delete(a.runs, p.id)
		return nil, fmt.Errorf("the guest does not listen: %w", err)
	}
	return p, nil
}

// Run runs a program in the guest to its end, and returns what it printed.
func (a *agent) Run(patience time.Duration, args ...string) (string, error) {
	p, err := a.Start(args...)
	if err != nil {
		return "", err
	}
	return p.Wait(patience)
}

func (p *Program) take(said control.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Write(said.Out)
	if said.Done {
		p.exit, p.err = said.Exit, said.Err
		close(p.done)
	}
}

// Output is what the program has printed so far, standard output and error.
func (p *Program) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Done is closed when the program has ended.
func (p *Program) Done() <-chan struct{} { return p.done }

// ErrPatience is the error of a program that did not end in time, and was killed.
var ErrPatience = errors.New("did not end in time")

// ExitError is the error of a program that failed.
type ExitError struct {
	Program string
	Code    int
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("%s in the guest ended with %d", e.Program, e.Code)
}

// Wait waits for the program's end, kills it when that takes too long, and returns what it printed.
func (p *Program) Wait(patience time.Duration) (string, error) {
	select {
	case <-p.done:
	case <-time.After(patience):
		p.Kill()
		return p.Output(), fmt.Errorf("%s in the guest %w (%s)", p.Args[0], ErrPatience, patience)
	}
	switch out := p.Output(); {
	case p.err != "":
		return out, fmt.Errorf("%s in the guest: %s", p.Args[0], p.err)
	case p.exit != 0:
		return out, &ExitError{p.Args[0], p.exit}
	default:
		return out, nil
	}
}

// Kill ends the program and those that it started, and waits for it.
func (p *Program) Kill() {
	if p.a.say(control.Request{Kill: p.id}) != nil {
		return
	}
	<-p.done
}
