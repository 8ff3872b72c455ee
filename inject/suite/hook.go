package suite

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/rocescope/rocescope/internal/crash"
)

// Device is a device that does what it is told: the hook. It is asked one thing at a time.
type Device interface {
	Do(c *Command) (*Answer, error)
	Close() error
}

// Command is what a device is asked, as JSON on a line of its own.
type Command struct {
	// Do is hello, create, connect, receive, post, completions, memory, deregister, modify, destroy, counters or reset.
	Do string `json:"do"`
	QP string `json:"qp,omitempty"` // a name that the suite chooses

	// Of create.
	Transport   string   `json:"transport,omitempty"`
	MTU         int      `json:"mtu,omitempty"`
	PSN         *uint32  `json:"psn,omitempty"` // the device's first; absent: its choice
	Access      []string `json:"access,omitempty"`
	Receives    int      `json:"receives,omitempty"` // also of receive
	ReceiveSize int      `json:"receive_size,omitempty"`
	Depth       int      `json:"depth,omitempty"`
	DeviceDepth int      `json:"device_depth,omitempty"`
	SRQ         bool     `json:"srq,omitempty"`
	BadReceive  bool     `json:"bad_receive,omitempty"`
	CQ          int      `json:"cq,omitempty"`
	Huge        int64    `json:"huge,omitempty"` // bytes of a memory "huge" that it tells besides, where it has as many
	IPv6        bool     `json:"ipv6,omitempty"`
	Posts       []Posted `json:"posts,omitempty"` // what the case will have it post, for a device that has to know beforehand

	// Of connect: the other side, and the device's own times and counts.
	Remote     *Numbers `json:"remote,omitempty"`
	Timeout    int      `json:"timeout,omitempty"`
	Retries    int      `json:"retries"`
	RNRRetries int      `json:"rnr_retries"`
	RNRTimer   int      `json:"rnr_timer,omitempty"`

	// Of post: messages from the memory "source", READs and atomics into "sink", at offsets that go on by Length.
	Operation string `json:"operation,omitempty"`
	Length    int    `json:"length,omitempty"`
	Count     int    `json:"count,omitempty"`
	RKey      uint32 `json:"rkey,omitempty"`
	VA        uint64 `json:"va,omitempty"`
	Add       uint64 `json:"add,omitempty"`
	Compare   uint64 `json:"compare,omitempty"`
	BadKey    bool   `json:"bad_key,omitempty"`

	// Of memory: a part of "region", "source", "sink" or "receive" is told or, with Data, written.
	Memory string `json:"memory,omitempty"`
	Offset int    `json:"offset,omitempty"`
	Data   []byte `json:"data,omitempty"` // base64

	State string `json:"state,omitempty"` // of modify: ERROR
}

// Posted is a series of messages that a case has a device post.
type Posted struct {
	Operation string `json:"operation"`
	Length    int    `json:"length"`
	Count     int    `json:"count"`
}

// Numbers are what a side says of its queue pair and memory.
type Numbers struct {
	Address string `json:"address"`
	MAC     string `json:"mac,omitempty"` // absent: it is asked for by ARP
	QPN     uint32 `json:"qpn"`
	PSN     uint32 `json:"psn"`
	RKey    uint32 `json:"rkey,omitempty"`
	VA      uint64 `json:"va,omitempty"`
	Length  int    `json:"length,omitempty"`
}

// Answer is what it says to that, as JSON on a line of its own. An Error says why it did not do it; Unsupported that it never does.
type Answer struct {
	Error       string `json:"error,omitempty"`
	Unsupported bool   `json:"unsupported,omitempty"`

	Name        string             `json:"name,omitempty"` // hello
	Numbers     *Numbers           `json:"numbers,omitempty"`
	Keys        map[string]Numbers `json:"keys,omitempty"`  // create: of foreign, readonly, writeonly, stale
	State       string             `json:"state,omitempty"` // completions: of the queue pair
	Completions []Completion       `json:"completions,omitempty"`
	Data        []byte             `json:"data,omitempty"`
	Counters    map[string]int64   `json:"counters,omitempty"`
}

// Completion is how a work request ended.
type Completion struct {
	Status  string `json:"status"` // SUCCESS, RETRY_EXC_ERR …: verbs' name without IBV_WC_
	Receive bool   `json:"receive,omitempty"`
	Length  int    `json:"length,omitempty"`
	Imm     uint32 `json:"imm,omitempty"`
}

// ErrUnsupported is what a device cannot do.
var ErrUnsupported = errors.New("the hook does not do that")

// hookLine is the longest answer.
const hookLine = 64 << 20

// ExecHook is a device that a program speaks for, by its standard input and output.
type ExecHook struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	lines    chan []byte
	patience time.Duration
}

// StartHook starts a hook's program, by the shell. It has so much time for each answer.
func StartHook(ctx context.Context, command string, patience time.Duration) (*ExecHook, error) {
	h := &ExecHook{cmd: exec.CommandContext(ctx, "sh", "-c", command), lines: make(chan []byte), patience: patience}
	var err error
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.cmd.WaitDelay = time.Second
	if err := h.cmd.Start(); err != nil {
		return nil, fmt.Errorf("the hook %q: %w", command, err)
	}
	go h.read(out)
	return h, nil
}

// read takes the program's answers.
func (h *ExecHook) read(out io.Reader) {
	defer close(h.lines)
	defer crash.Guard()
	s := bufio.NewScanner(out)
	s.Buffer(make([]byte, 64<<10), hookLine)
	for s.Scan() {
		h.lines <- append([]byte(nil), s.Bytes()...)
	}
}

// Do implements Device.
func (h *ExecHook) Do(c *Command) (*Answer, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	if _, err := h.in.Write(append(text, '\n')); err != nil {
		return nil, fmt.Errorf("the hook has gone: it was asked to %s: %w", c.Do, err)
	}
	t := time.NewTimer(h.patience)
	defer t.Stop()
	select {
	case line, ok := <-h.lines:
		if !ok {
			return nil, fmt.Errorf("the hook ended when it was asked to %s", c.Do)
		}
		var a Answer
		if err := json.Unmarshal(line, &a); err != nil {
			return nil, fmt.Errorf("the hook's answer to %s is not JSON on one line: %w", c.Do, err)
		}
		return &a, a.err(c)
	case <-t.C:
		return nil, fmt.Errorf("the hook did not answer %s within %v", c.Do, h.patience)
	}
}

// err is the error that an answer tells.
func (a *Answer) err(c *Command) error {
	switch {
	case a.Unsupported:
		return fmt.Errorf("%s: %w", c.Do, ErrUnsupported)
	case a.Error != "":
		return fmt.Errorf("the device was asked to %s: %s", c.Do, a.Error)
	}
	return nil
}

// farewell is how long a hook's program may take to end when its input has; one that does nothing any more is killed.
const farewell = time.Second

// Close ends the program.
func (h *ExecHook) Close() error {
	err := h.in.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer crash.Guard()
		for range h.lines { // what it still says
		}
	}()
	if h.cmd == nil {
		<-ended
		return err
	}
	select {
	case <-ended:
		return errors.Join(err, h.cmd.Wait())
	case <-time.After(farewell):
		err = errors.Join(err, h.cmd.Process.Kill())
		_ = h.cmd.Wait() // it says that it was killed
		return errors.Join(err, fmt.Errorf("the hook went on for %v when its input had ended, and was killed", farewell))
	}
}

// ServeHook answers commands from in on out for a device in this process.
func ServeHook(in io.Reader, out io.Writer, d Device) error {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 64<<10), hookLine)
	enc := json.NewEncoder(out)
	for s.Scan() {
		var c Command
		a := &Answer{}
		err := json.Unmarshal(s.Bytes(), &c)
		if err == nil {
			if a, err = d.Do(&c); a == nil {
				a = &Answer{}
			}
		}
		if err != nil {
			a.Error, a.Unsupported = err.Error(), errors.Is(err, ErrUnsupported)
		}
		if err := enc.Encode(a); err != nil {
			return err
		}
	}
	return s.Err()
}
