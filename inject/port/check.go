package port

import "fmt"

// minFrame is an Ethernet header: nothing shorter is a frame.
const minFrame = 14

// check refuses a batch with a frame that has no place in a slot: its sender is wrong about something.
func (i *Info) check(frames []Out) error {
	for k := range frames {
		if n := frames[k].Len; n < minFrame || int(n) > i.MaxFrame || int(frames[k].Slot) >= i.Slots {
			return i.refuse(frames[k])
		}
	}
	return nil
}

func (i *Info) refuse(f Out) error {
	where := i.Via
	if i.Interface != "" {
		where += " on " + i.Interface
	}
	switch {
	case int(f.Slot) >= i.Slots:
		return fmt.Errorf("port: %s: slot %d does not exist: there are %d", where, f.Slot, i.Slots)
	case f.Len < minFrame:
		return fmt.Errorf("port: %s: a frame of %d bytes is shorter than an Ethernet header", where, f.Len)
	}
	return fmt.Errorf("port: %s: a frame of %d bytes: %w: this port takes %d", where, f.Len, ErrFrameSize, i.MaxFrame)
}
