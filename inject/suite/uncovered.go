package suite

// uncovered says why a row has no case.
var uncovered = map[string]string{
	"ETH-07": "the card writes the frame check sequence: it takes an FPGA or an impairment box",
	"D46":    "the configuration interface of a core is no RoCE interface: its own test bench has to try it",
	"D49":    "which ECN code point a device should send depends on its network; CC-01, CC-02 and IP-09 try what it makes of marks",
	"D58":    "it is about an example design, not about the behaviour of a device",
}
