package port

import (
	"encoding/binary"
	"fmt"
	"io"
)

// The types of messages in a pipe to a simulation. What follows is its whole format, for who writes the other side of it: a
// test bench around a core, in Verilator, cocotb or anything else that can read and write bytes. In Go, ServePipe does it;
// testdata/core.py is a complete one in Python.
//
// # Messages
//
// Both directions are streams of messages, all numbers little-endian:
//
//	offset  size  what
//	     0     4  length of the body, bytes
//	     4     1  type
//	     5     3  zero
//	     8     8  time: nanoseconds of simulated time, 0 being the simulation's beginning
//	    16        body
//
// Nothing else may be in the stream. Above all, a simulator that talks on its standard output ($display, print) must do that
// on standard error instead.
//
// # The dialogue
//
// Simulated time stands still but where we let it run, and the two sides take turns, so that nothing depends on how fast
// either of them is, and every run is the same:
//
//	we          HELLO      once, first of all
//	simulation  HELLO      once, first of all
//	we          FRAME t    any number of them: a frame that arrives at the core at time t
//	we          ADVANCE t  now simulate: until time t, or until a frame has left the core, whichever is first
//	simulation  FRAME t    a frame that left the core; t is when its last byte did
//	simulation  REACHED t  how far it got; from here on it is our turn again
//	we          END        instead of ADVANCE: the test is over
//
// The simulation's part, in full:
//
//	write HELLO
//	forever:
//	    read a message
//	    FRAME t: put it into the queue of frames that the core will be sent
//	    ADVANCE t:
//	        while now < t and no frame has left the core:
//	            feed the core from the queue: frames whose time has come, in order, one beat a clock cycle, as the core
//	            has room for them (back-pressure holds them up, and nothing is lost)
//	            run one clock cycle
//	        write FRAME for each frame that left, in order
//	        write REACHED now
//	        flush
//	    END, or the end of the input: stop
//
// Times never run backwards. A frame whose time is already over when it comes is fed at once. A simulation may stop a few
// nanoseconds behind t, where its clock's cycle ends, and says so in REACHED. It need not stop at the first frame: what leaves
// until t is then answered later, as if the wire were longer.
//
// # Idle cores
//
// To simulate a core that waits for a time-out costs hours. REACHED may therefore say until when the core is idle: the time
// before which nothing will happen in it unless a frame comes. We then do not ask again before that time or the next frame,
// whichever is first, so that the next FRAME or ADVANCE may be far ahead: over the time that it knew to be idle, the simulation
// may set its clock forward instead of running cycles.
//
// # Frames
//
// The body of FRAME is an Ethernet frame from the destination address to the end of the payload: without preamble, and without
// FCS. Each is at most as long as the HELLO of its receiver said.
const (
	// PipeHello: the body is two numbers of 32 bits: the version, 1, and the longest frame that its sender takes.
	PipeHello = 1
	// PipeFrame: the time is when the frame arrives or left; the body is the frame.
	PipeFrame = 2
	// PipeAdvance: the time is what to run to; no body.
	PipeAdvance = 3
	// PipeReached: the time is what was reached. The body is empty, or one number of 64 bits: the time until which the core is
	// idle, all ones if it is until a frame comes.
	PipeReached = 4
	// PipeEnd: no body.
	PipeEnd = 5
)

const (
	pipeVersion = 1
	pipeHeader  = 16
	pipeForever = ^uint64(0)
)

// pipeMessage is a message's header.
type pipeMessage struct {
	length uint32
	kind   byte
	time   uint64
}

func (m pipeMessage) put(b *[pipeHeader]byte) {
	*b = [pipeHeader]byte{4: m.kind}
	binary.LittleEndian.PutUint32(b[0:], m.length)
	binary.LittleEndian.PutUint64(b[8:], m.time)
}

// get reads a header. Bodies are no longer than most.
func (m *pipeMessage) get(b *[pipeHeader]byte, most int) error {
	m.length, m.kind, m.time = binary.LittleEndian.Uint32(b[0:]), b[4], binary.LittleEndian.Uint64(b[8:])
	if m.kind < PipeHello || m.kind > PipeEnd || b[5]|b[6]|b[7] != 0 || m.length > uint32(max(most, pipeHeader)) {
		return fmt.Errorf("%w: %q is no message's header; a program on the other side that prints must do so on standard error", ErrFormat, b[:])
	}
	return nil
}

// writeMessage writes a message; scratch is for its header.
func writeMessage(w io.Writer, scratch *[pipeHeader]byte, kind byte, time uint64, body []byte) error {
	pipeMessage{uint32(len(body)), kind, time}.put(scratch)
	if _, err := w.Write(scratch[:]); err != nil {
		return err
	}
	if len(body) == 0 {
		return nil
	}
	_, err := w.Write(body)
	return err
}

// helloBody is what HELLO says.
func helloBody(maxFrame int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, pipeVersion)
	return binary.LittleEndian.AppendUint32(b, uint32(maxFrame))
}

// readHello reads the other side's HELLO, and returns the longest frame that it takes.
func readHello(r io.Reader, scratch *[pipeHeader]byte) (maxFrame int, err error) {
	if _, err := io.ReadFull(r, scratch[:]); err != nil {
		return 0, err
	}
	var m pipeMessage
	if err := m.get(scratch, pipeHeader); err != nil {
		return 0, err
	}
	var body [8]byte
	if m.kind != PipeHello || m.length != uint32(len(body)) {
		return 0, fmt.Errorf("%w: the first message is of type %d with %d bytes, not HELLO with 8", ErrFormat, m.kind, m.length)
	}
	if _, err := io.ReadFull(r, body[:]); err != nil {
		return 0, err
	}
	if v := binary.LittleEndian.Uint32(body[:]); v != pipeVersion {
		return 0, fmt.Errorf("%w: the other side speaks version %d, we %d", ErrFormat, v, pipeVersion)
	}
	return int(binary.LittleEndian.Uint32(body[4:])), nil
}
