package port

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Core is something simulated at the other end of a pipe, as ServePipe drives it.
type Core interface {
	// Feed gives it a frame, which arrives at the time. It is borrowed.
	Feed(frame []byte, time int64)
	// Run simulates until a time or until a frame has left, and says how far it got and until when the core is idle from there
	// on: MaxInt64 if that is until the next frame, 0 if it is not known.
	Run(until int64) (reached, idle int64)
	// Sent is the next frame that left, and when; nil if there is none. It is borrowed until the next call.
	Sent() (frame []byte, time int64)
}

// ServePipe is a simulation's side of a pipe, for cores simulated in Go. It returns when the other side ends the dialogue.
func ServePipe(r io.Reader, w io.Writer, maxFrame int, core Core) error {
	in, out := bufio.NewReaderSize(r, pipeBuffer), bufio.NewWriterSize(w, pipeBuffer)
	var header [pipeHeader]byte
	if err := writeMessage(out, &header, PipeHello, 0, helloBody(maxFrame)); err != nil {
		return err
	}
	theirs, err := readHello(in, &header)
	if err != nil {
		return err
	}
	frame := make([]byte, maxFrame)
	for {
		if _, err := io.ReadFull(in, header[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var m pipeMessage
		if err := m.get(&header, maxFrame); err != nil {
			return err
		}
		switch m.kind {
		case PipeFrame:
			if _, err := io.ReadFull(in, frame[:m.length]); err != nil {
				return err
			}
			core.Feed(frame[:m.length], int64(m.time))
		case PipeAdvance:
			if err := runCore(out, &header, core, int64(min(m.time, math.MaxInt64)), theirs); err != nil {
				return err
			}
		case PipeEnd:
			return nil
		default:
			return fmt.Errorf("%w: a message of type %d came where FRAME, ADVANCE or END is due", ErrFormat, m.kind)
		}
	}
}

// runCore answers ADVANCE.
func runCore(out *bufio.Writer, header *[pipeHeader]byte, core Core, until int64, most int) error {
	reached, idle := core.Run(until)
	for {
		frame, at := core.Sent()
		if frame == nil {
			break
		}
		if len(frame) > most {
			return fmt.Errorf("port: pipe: the core sent a frame of %d bytes: %w: the other side takes %d", len(frame), ErrFrameSize, most)
		}
		if err := writeMessage(out, header, PipeFrame, uint64(at), frame); err != nil {
			return err
		}
	}
	body := binary.LittleEndian.AppendUint64(nil, uint64(idle))
	switch idle {
	case 0:
		body = nil
	case math.MaxInt64:
		body = binary.LittleEndian.AppendUint64(nil, pipeForever)
	}
	if err := writeMessage(out, header, PipeReached, uint64(reached), body); err != nil {
		return err
	}
	return out.Flush()
}
