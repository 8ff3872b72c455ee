package port

import "fmt"

// Trouble says what of a port's counters somebody should know, and what to do about it, a sentence each. It is empty where all
// is well.
func Trouble(i Info, s Stats) (told []string) {
	say := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	where := i.Interface
	if where == "" {
		where = i.Via
	}
	if s.SendLost > 0 && i.Interface == "" {
		say("%s: %d frames were lost on sending", where, s.SendLost)
	}
	if s.SendLost > 0 && i.Interface != "" {
		say("%s: %d of %d frames were taken and then dropped by the interface: its far end did not keep up, or they are longer than its MTU allows; send slower, or, "+
			"on a virtual link, give it a queue that holds the sender back: tc qdisc replace dev %s root pfifo", where, s.SendLost, s.Sent+s.SendLost, i.Interface)
	}
	if s.LinkDropped > s.SendLost {
		say("%s: the interface says that it dropped %d frames on sending, of which we know %d to be ours: count what arrives at the receiver", where, s.LinkDropped, s.SendLost)
	}
	if s.RecvLost > 0 {
		say("%s: %d frames arrived and found no room, %d were received: make the ring larger, or give the receiver a core of its own", where, s.RecvLost, s.Received)
	}
	return told
}
