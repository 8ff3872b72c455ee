package port

import (
	"encoding/binary"
	"fmt"
)

// minFrame is an Ethernet header: nothing shorter is a frame.
const minFrame = etherHeader

// check refuses a batch with a frame that cannot go out: its sender is wrong about something.
func (i *Info) check(p Port, frames []Out) error {
	plain := i.plain()
	for _, f := range frames {
		if !i.sound(f, plain) {
			if err := i.checkOne(p, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// sound is true of nearly all frames: those without a VLAN tag that can go out.
func (i *Info) sound(f Out, plain int32) bool {
	return f.Len >= minFrame && f.Len <= plain && f.Slot < uint32(i.Slots)
}

// plain is how long a frame without a VLAN tag may be.
func (i *Info) plain() int32 {
	if i.MTU > 0 {
		return min(int32(i.MaxFrame), int32(i.MTU)+etherHeader)
	}
	return int32(i.MaxFrame)
}

// checkOne is check of a frame that is not sound.
func (i *Info) checkOne(p Port, f Out) error {
	if f.Len < minFrame || f.Len > int32(i.MaxFrame) || f.Slot >= uint32(i.Slots) || !tagged(p.Room(f.Slot)) {
		return i.refuse(f)
	}
	return nil
}

// tagged says whether a frame has a VLAN tag, for which interfaces have room beside the MTU.
func tagged(frame []byte) bool {
	switch binary.BigEndian.Uint16(frame[12:]) {
	case 0x8100, 0x88A8:
		return true
	}
	return false
}

func (i *Info) refuse(f Out) error {
	where := i.Via
	if i.Interface != "" {
		where += " on " + i.Interface
	}
	switch {
	case f.Slot >= uint32(i.Slots):
		return fmt.Errorf("port: %s: slot %d does not exist: there are %d", where, f.Slot, i.Slots)
	case f.Len < minFrame:
		return fmt.Errorf("port: %s: a frame of %d bytes is shorter than an Ethernet header", where, f.Len)
	case int(f.Len) <= i.MaxFrame:
		return fmt.Errorf("port: %s: an untagged frame of %d bytes: %w for an MTU of %d", where, f.Len, ErrFrameSize, i.MTU)
	}
	return fmt.Errorf("port: %s: a frame of %d bytes: %w: this port takes %d", where, f.Len, ErrFrameSize, i.MaxFrame)
}
