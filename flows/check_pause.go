package flows

import "fmt"

// The checks on pause frames.
var (
	checkPauseStorm = Check{
		ID: "pause_storm", Severity: Warning, Title: "Pause storm",
		Explain: "A station kept a priority, or its whole link, paused for at least half of the time, or once for 100 ms and longer. Everything behind it waits; the pause spreads upstream. Frames that let go on (XON, quanta 0) end a pause and are not counted as one.",
		Rule:    "IEEE 802.1Qbb (priority flow control), IEEE 802.3 annex 31B",
		Try:     "Look at the station that sends them: a receiver that takes no data (stopped host, slow PCIe, stuck core), or a switch that passes the pause on from further behind. A PFC watchdog breaks such storms.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s: paused for %v of %v (%.0f %%), at most %v without a break, with %s", f.Where, roundDuration(int64(f.Args[0])), roundDuration(int64(f.Args[1])),
				100*float64(f.Args[0])/float64(f.Args[1]), roundDuration(int64(f.Args[2])), plural(int(f.Count), "XOFF", "XOFFs")) + assumedText(f.Args[3])
		},
	}
	checkPauseIgnored = Check{
		ID: "pause_not_honoured", Severity: Warning, Title: "Pause was not honoured",
		Explain: "While a station had paused a priority, its link partner went on sending data of that priority, for longer than it may take to react. The station's buffers overflow and packets are dropped although flow control looks active. Of PFC, only packets with a VLAN tag are judged, for only they show their priority.",
		Rule:    "IEEE 802.1Qbb, IEEE 802.3 annex 31B.3",
		Try:     "Look whether PFC is on for this priority at the sender, whether it maps the traffic to that priority, and whether it reacts to PFC or only to 802.3x.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s: %s while it was paused", f.Where, plural(int(f.Count), "packet came", "packets came")) + assumedText(f.Args[0])
		},
	}
	checkPausePassed = Check{
		ID: "pause_unclear", Severity: Note, Title: "Data while a switch had paused its priority",
		Explain: "A station that sends no data itself, so presumably a switch port, paused a priority, and packets of it were sent meanwhile by a station of this capture. If that station is on the switch port's own link, it does not honour the pause; this capture does not tell.",
		Rule:    "IEEE 802.1Qbb, IEEE 802.3 annex 31B.3",
		Try:     "Capture on the sender's own link only, and look whether the packets are still there.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s from %s while %s had paused their priority", plural(int(f.Count), "packet", "packets"), macText(f.Args[0]), f.Where) + assumedText(f.Args[1])
		},
	}
	checkPauseMalformed = Check{
		ID: "pause_malformed", Severity: Warning, Title: "Malformed pause frame",
		Explain: "A pause frame is cut short, has reserved bits of its priority vector set, or goes to another address than 01:80:C2:00:00:01. Receivers may ignore it, or take it for something else.",
		Rule:    "IEEE 802.3 annex 31B, 31D; IEEE 802.1Qbb",
		Try:     "Look at how the sender builds the frame: opcode 0x0001 with one time, or 0x0101 with a vector whose upper byte is 0 and eight times.",
		text: func(f *Finding) string {
			what := "cut short, or with reserved bits set"
			if f.Args[0] == pauseWrongAddress {
				what = "to a wrong address"
			}
			return fmt.Sprintf("%s: %s (%s)", f.Where, plural(int(f.Count), "malformed pause frame", "malformed pause frames"), what)
		},
	}
	checkPauseOrder = Check{
		ID: "pause_order", Severity: Note, Title: "Several stations pause",
		Explain: "More than one station sends pause frames. A pause spreads upstream: the station that paused first is nearest to the cause, as far as this capture shows.",
		Rule:    "IEEE 802.1Qbb",
		Try:     "Begin with the station that paused first; the order is in the list of pausing stations.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%d stations pause; first %s, then %s after %v", f.Args[0], macText(f.Args[1]), macText(f.Args[2]), roundDuration(int64(f.Args[3])))
		},
	}
)

func assumedText(assumed uint64) string {
	if assumed == 0 {
		return ""
	}
	return " (link speed not told: 100 Gb/s assumed)"
}
