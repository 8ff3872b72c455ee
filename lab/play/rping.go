package play

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rocescope/rocescope/inject/connect"
)

// rping's ports and message: where a buffer is, in network order. The server's messages say only that it is its turn.
const (
	rpingPort    = 7174
	rpingMessage = 16
)

// Offsets in the memory of an rping connection. Receives are at 0 and slot.
const (
	rpingInfo = 2 * slot // the message that is sent
	rpingOut  = 3 * slot // what the server reads, or has read
	rpingIn   = 8 * slot // what the server writes
)

// RpingClient does as rping -c -V: for each ping, the server READs a text of size bytes and WRITEs it back.
func (n *Node) RpingClient(server connect.Parameters, size, count int) error {
	c, err := n.Dial(server, rpingPort, sizeOf, func(c *Conn) error { return errors.Join(c.postRecv(0, slot), c.postRecv(slot, slot)) })
	if err != nil {
		return err
	}
	for i := range count {
		text := c.fill(rpingOut, size)
		text[size-1] = 0 // the server writes back as far as this
		clear(c.mr.Bytes()[rpingIn:][:size])
		for _, offset := range []int{rpingOut, rpingIn} {
			if err := c.sendInfo(c.mr.VA()+uint64(offset), c.mr.RKey(), size); err != nil {
				return fmt.Errorf("ping %d: %w", i+1, err)
			}
			at, length, err := c.recv()
			if err != nil {
				return fmt.Errorf("ping %d: %w", i+1, err)
			}
			if length != rpingMessage {
				return fmt.Errorf("ping %d: the server sent %d bytes, where rping's message has %d", i+1, length, rpingMessage)
			}
			if err := c.postRecv(at, slot); err != nil {
				return err
			}
		}
		if back := c.mr.Bytes()[rpingIn:][:size]; !bytes.Equal(back, text) {
			return fmt.Errorf("ping %d: what came back differs: %q, not %q", i+1, back, text)
		}
	}
	return c.Disconnect()
}

// RpingServer does as rping -s, for count pings of one client.
func (n *Node) RpingServer(count int) error {
	c, err := n.Accept()
	if err != nil {
		return err
	}
	for i := range count {
		err := c.rpingAnswer()
		if err == nil {
			err = c.sendInfo(0, 0, 0)
			// The client says goodbye once it has the last answer, which may overtake that answer's acknowledgement.
			switch last := i == count-1; {
			case last && errors.Is(err, errDisconnected):
				return nil
			case last && errors.Is(err, errFlushed):
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("ping %d: %w", i+1, err)
		}
	}
	return c.Disconnected()
}

// rpingAnswer is what comes of a ping, up to the answer that it is done with.
func (c *Conn) rpingAnswer() error {
	va, rkey, size, err := c.recvInfo()
	if err != nil {
		return err
	}
	if size > rpingIn-rpingOut {
		return fmt.Errorf("the client's buffer has %d bytes, more than are kept here", size)
	}
	if err := c.read(rpingOut, size, va, rkey); err != nil {
		return err
	}
	if text := c.mr.Bytes()[rpingOut:][:size]; !bytes.HasPrefix(text, []byte("rdma-ping-")) {
		return fmt.Errorf("the client's text begins with %q, not as rping's", text[:min(size, 16)])
	}
	if err := c.sendInfo(0, 0, 0); err != nil {
		return err
	}
	if va, rkey, _, err = c.recvInfo(); err != nil {
		return err
	}
	return c.write(rpingOut, size, va, rkey)
}

func (c *Conn) sendInfo(va uint64, rkey uint32, size int) error {
	b := c.mr.Bytes()[rpingInfo:][:0]
	b = binary.BigEndian.AppendUint64(b, va)
	b = binary.BigEndian.AppendUint32(b, rkey)
	binary.BigEndian.AppendUint32(b, uint32(size))
	return c.send(rpingInfo, rpingMessage)
}

func (c *Conn) recvInfo() (va uint64, rkey uint32, size int, err error) {
	at, length, err := c.recv()
	if err != nil {
		return 0, 0, 0, err
	}
	if length != rpingMessage {
		return 0, 0, 0, fmt.Errorf("the client sent %d bytes, where rping's message has %d", length, rpingMessage)
	}
	b := c.mr.Bytes()[at:]
	va, rkey, size = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]), int(binary.BigEndian.Uint32(b[12:]))
	return va, rkey, size, c.postRecv(at, slot)
}
