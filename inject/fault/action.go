package fault

import (
	"slices"
	"strings"

	"github.com/rocescope/rocescope/internal/filter"
)

// Kind says what an action does with the packet that is struck.
type Kind uint8

// A rule has any number of edits and additions, and one fate at most.
const (
	Edit Kind = iota // the packet goes on changed
	Fate             // when, how often or whether it goes on
	Add              // further packets go out
)

var kindNames = [...]string{"edit", "fate", "addition"}

func (k Kind) String() string { return kindNames[k] }

// Param is a parameter of an action.
type Param struct {
	Name    string
	Default string // "" = there is none
	What    string
}

// Action is a row of the table of actions.
type Action struct {
	Name   string
	Kind   Kind
	What   string
	Params []Param
	Fields bool // takes fields and their new values, too

	make func(*args) (step, error)
}

var icrcParam = Param{"icrc", "stale", "ok: computed anew; stale: left as it was"}

func sealed(p Param) Param {
	p.Default = "ok"
	return p
}

// actions is what can be done, by kind. It is set by init, since the actions that add packets alter them by actions.
var actions []Action

func init() {
	actions = []Action{
		{Name: "drop", Kind: Fate, What: "the packet is lost", make: makeDrop},
		{Name: "duplicate", Kind: Fate, What: "copies follow the packet", Params: []Param{
			{"n", "1", "how many copies, 64 at most"},
		}, make: makeDuplicate},
		{Name: "delay", Kind: Fate, What: "the packet leaves later, and those behind it overtake", Params: []Param{
			{"time", "", "by how much: 50us, 3ms"},
		}, make: makeDelay},
		{Name: "reorder", Kind: Fate, What: "the packet is held until others have gone", Params: []Param{
			{"by", "1", "how many of them"},
			{"until", "", "a filter instead: until a packet that passes it has gone"},
			{"most", "100ms", "for how long at most"},
		}, make: makeReorder},
		{Name: "swap", Kind: Fate, What: "the packet and the next one that the rule matches change places", Params: []Param{
			{"most", "100ms", "for how long the packet waits at most"},
		}, make: makeSwap},
		{Name: "hold", Kind: Fate, What: "packets are held, and leave together", Params: []Param{
			{"n", "", "when so many are held"},
			{"time", "", "or so long after the first; without either, at the end"},
			{"order", "same", "same, or reverse"},
			{"keep", "all", "all; last: only the last one leaves, as a coalesced ACK does"},
		}, make: makeHold},

		{Name: "set", Kind: Edit, What: "fields get other values", Fields: true, Params: []Param{sealed(icrcParam)}, make: makeSet},
		{Name: "corrupt", Kind: Edit, What: "bits are flipped, or a byte is overwritten", Params: []Param{
			{"where", "transport", "frame, ip, udp, bth, payload, pad, icrc, or transport: from the BTH to the pad"},
			{"bit", "", "which bit from there on, the most significant of the first byte being 0; else random ones"},
			{"n", "1", "how many random bits"},
			{"byte", "", "which byte from there on"},
			{"xor", "0xff", "what it is combined with"},
			{"to", "", "what it becomes instead"},
			icrcParam,
		}, make: makeCorrupt},
		{Name: "icrc", Kind: Edit, What: "the ICRC becomes wrong, and nothing else", Params: []Param{
			{"as", "flip", "flip, swap (bytes reversed), complement, zero, ones, random, bare (without the 64 ones in front)"},
			{"bit", "", "which bit to flip, 0 to 31 as on the wire; else a random one"},
		}, make: makeICRC},
		{Name: "truncate", Kind: Edit, What: "bytes are cut off, or a header is taken out", Params: []Param{
			{"where", "frame", "frame: from its end; payload: from the payload's end; or reth, aeth, atomiceth, atomicacketh, immdt, ieth, deth"},
			{"to", "", "how many bytes stay"},
			{"by", "", "how many go"},
			{"lengths", "keep", "keep, or fix: IP and UDP lengths fit a cut frame (otherwise they always do)"},
			{"icrc", "", "ok or stale; default is ok, and stale for frame"},
		}, make: makeTruncate},
		{Name: "pad", Kind: Edit, What: "bytes are added", Params: []Param{
			{"where", "payload", "payload: at its end, with all lengths; ip: behind UDP's length and within IP's; frame: behind the datagram"},
			{"n", "", "how many"},
			{"with", "0", "the byte"},
			{"align", "yes", "no: no pad bytes make the payload whole words, and the pad count says so"},
			sealed(icrcParam),
		}, make: makePad},
		{Name: "options", Kind: Edit, What: "IP gets options: no-operations on IPv4, a destination options header on IPv6", Params: []Param{
			{"n", "4", "bytes: a multiple of 4 up to 40; always 8 on IPv6"},
			sealed(icrcParam),
		}, make: makeOptions},
		{Name: "tag", Kind: Edit, What: "the frame gets a VLAN tag in front of those that it has", Params: []Param{
			{"id", "0", "VLAN ID; 0 is a tag of priority alone"},
			{"pcp", "0", "priority, 0 to 7"},
			{"type", "0x8100", "EtherType"},
		}, make: makeTag},
		{Name: "untag", Kind: Edit, What: "the frame's outer VLAN tag is taken off", make: makeUntag},
		{Name: "ecn", Kind: Edit, What: "the ECN bits of IP are set", Params: []Param{
			{"as", "ce", "ce, ect0, ect1 or none"},
		}, make: makeECN},

		{Name: "inject", Kind: Add, What: "a crafted packet goes out, with the addresses of the one that is struck", Fields: true, Params: []Param{
			{"packet", "", "ack, nak-sequence, nak-invalid, nak-access, nak-operational, rnr, cnp, or an opcode: RC_SEND_ONLY"},
			{"frame", "", "instead: a whole frame in hexadecimal digits"},
			{"payload", "0", "bytes of payload, of zeros"},
			{"n", "1", "how many, 1024 at most"},
			{"place", "behind", "behind, before or instead of the packet"},
			{"back", "no", "yes: to whom the packet came from; then bth.destqp has to be given"},
			sealed(icrcParam),
		}, make: makeInject},
		{Name: "replay", Kind: Add, What: "an earlier packet that the rule matched goes out again, behind this one", Params: []Param{
			{"ago", "1", "how many matches ago it was, 256 at most; where there were fewer, the first"},
			{"n", "1", "how many packets, from that one on"},
		}, make: makeReplay},
		{Name: "pause", Kind: Add, What: "pause frames go out behind the packet", Params: []Param{
			{"priority", "all", "all: an 802.3x frame; 0 to 7: priority flow control"},
			{"quanta", "65535", "for how long, in times of 512 bits; 0 is go on"},
			{"n", "1", "how many frames, 1024 at most"},
			{"back", "no", "yes: to whom the packet came from"},
		}, make: makePause},
	}
}

// Actions lists them.
func Actions() []Action { return slices.Clone(actions) }

func findAction(name string) *Action {
	for i := range actions {
		if actions[i].Name == name {
			return &actions[i]
		}
	}
	return nil
}

// near is the known word that a mistyped one was probably meant to be, as a hint.
func near(word string, known []string) string {
	best, least := "", len(word)/3+2
	for _, k := range known {
		if d := filter.Distance(strings.ToLower(word), strings.ToLower(k), least); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// step is an action with its parameters, ready to be done.
type step struct {
	action *Action
	edit   func(*work) bool
	fate   *fate
	add    func(*work) bool
	sends  int  // packets that it sends beside the one that is struck
	grows  int  // bytes that the packet may become longer by
	back   bool // sends the other way
	before bool // sends in front of the packet
	takes  bool // sends instead of it
	recall int  // packets to remember
}

// fate is when, how often or whether a packet goes on.
type fate struct {
	kind   fateKind
	n      int
	time   int64 // nanoseconds; 0 = without limit
	until  *filter.Filter
	turned bool // the last first
	last   bool // only the last
}

type fateKind uint8

const (
	fateDrop fateKind = iota
	fateDuplicate
	fateDelay
	fateReorder
	fateSwap
	fateHold
)

// holds reports whether packets are kept back.
func (f *fate) holds() bool { return f != nil && f.kind >= fateDelay }

func names[T any](list []T, name func(*T) string) []string {
	all := make([]string, len(list))
	for i := range list {
		all[i] = name(&list[i])
	}
	return all
}

func actionNames() []string { return names(actions, func(a *Action) string { return a.Name }) }

func paramNames(a *Action) []string {
	all := names(a.Params, func(p *Param) string { return p.Name })
	return append(all, names(selectors, func(s *Param) string { return s.Name })...)
}

func byName(params []Param, name string) int {
	return slices.IndexFunc(params, func(p Param) bool { return p.Name == name })
}
