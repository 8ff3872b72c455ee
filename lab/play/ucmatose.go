package play

import (
	"fmt"

	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/rnic"
)

const ucmatosePort = 7471

// replies is where the messages to send are in the memory of a ucmatose connection. Receives are at the multiples of slot
// before it.
const replies = 8 * slot

// UcmatoseClient does as ucmatose -s: over one connection, count messages come, and as many go back. The server ends it. With
// immediate, WRITEs with immediate data and nothing else go back instead: they take a receive each as well, which is all that
// ucmatose counts, and need no memory, of which it tells none.
func (n *Node) UcmatoseClient(server connect.Parameters, size, count int, immediate bool) error {
	if count > replies/slot || size > slot {
		return fmt.Errorf("%d messages of %d bytes are more than are kept here", count, size)
	}
	c, err := n.Dial(server, ucmatosePort, sizeOf, func(c *Conn) error {
		for i := range count {
			if err := c.postRecv(i*slot, slot); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.recvMany(size, count); err != nil {
		return err
	}
	if immediate {
		for i := range count {
			if err := c.request(rnic.SendWR{Op: rnic.OpWriteImm, Imm: uint32(i)}); err != nil {
				return fmt.Errorf("WRITE %d of %d: %w", i+1, count, err)
			}
		}
	} else if err := c.sendMany(size, count); err != nil {
		return err
	}
	return c.Disconnected()
}

// UcmatoseServer does as ucmatose: over one connection, count messages go, and as many come back.
func (n *Node) UcmatoseServer(size, count int) error {
	c, err := n.Accept()
	if err != nil {
		return err
	}
	for i := 2; i < count; i++ { // two are posted
		if err := c.postRecv(i*slot, slot); err != nil {
			return err
		}
	}
	if err := c.sendMany(size, count); err != nil {
		return err
	}
	if err := c.recvMany(size, count); err != nil {
		return err
	}
	return c.Disconnect()
}

func (c *Conn) recvMany(size, count int) error {
	for i := range count {
		_, length, err := c.recv()
		if err != nil {
			return fmt.Errorf("message %d of %d: %w", i+1, count, err)
		}
		if length != size {
			return fmt.Errorf("message %d of %d has %d bytes, not %d", i+1, count, length, size)
		}
	}
	return nil
}

func (c *Conn) sendMany(size, count int) error {
	for i := range count {
		c.fill(replies, size)
		if err := c.send(replies, size); err != nil {
			return fmt.Errorf("message %d of %d: %w", i+1, count, err)
		}
	}
	return nil
}
