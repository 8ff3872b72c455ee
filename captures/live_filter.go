package captures

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/bpf"
)

// DefaultFilter is what is captured unless a filter is given: RoCE, and what
// explains it.
const DefaultFilter = "roce or pause or tcp port 18515"

// FilterHelp says what a capture filter may consist of.
const FilterHelp = `A capture filter is decided in the kernel, and sees headers through VLAN tags, one
or two, in the frame or in the card's hands:

  default             roce or pause or tcp port 18515
  none                no filter: every frame
  roce                rocev2 or rocev1
  rocev2              UDP from or to port 4791, over IPv4 or IPv6
  rocev1              EtherType 0x8915
  pause               EtherType 0x8808: 802.3x pause and priority flow control
  udp, tcp, icmp, icmp6, arp, ip, ip6
  [udp|tcp] port N    from or to this port
  [src|dst] host A    an IPv4 or IPv6 address
  [src|dst] net A/n   a network
  ether host M        a hardware address
  vlan [N]            has a VLAN tag, or this one

and not, and, or (also !, &&, ||) and parentheses. Later fragments of a datagram have
no ports. Headers inside of tunnels are not looked at: udp port 4789 keeps VXLAN.`

// FilterError is a capture filter that cannot be understood.
type FilterError struct {
	Filter string
	Offset int // where in it
	Reason string
}

// Error is one sentence.
func (e *FilterError) Error() string {
	return fmt.Sprintf("capture filter: %s, at %q", e.Reason, e.Filter[min(e.Offset, len(e.Filter)):])
}

// CheckFilter returns the *FilterError of a capture filter, nil for a good one.
func CheckFilter(filter string) error {
	_, err := compileFilter(filter, maxSnap, InOut)
	return err
}

// maxSnap is the snap length without one, as dumpcap has it.
const maxSnap = 262144

// maxInstructions is how long a program the kernel takes.
const maxInstructions = 4096

// compileFilter makes the kernel's program of a filter; it keeps snap bytes of
// the frames that pass.
func compileFilter(filter string, snap uint32, d Direction) ([]bpf.RawInstruction, error) {
	p := filterParser{text: filter}
	if strings.TrimSpace(filter) == "" {
		p.text = "default"
	}
	p.tokens = tokenize(p.text)
	test, err := p.parse()
	if err != nil {
		return nil, err
	}
	var c filterCode
	pass, drop := c.label(), c.label()
	if d != InOut {
		next := c.label()
		c.add(bpf.LoadExtension{Num: bpf.ExtType})
		if d == In {
			c.jump(bpf.JumpEqual, packetOutgoing, drop, next)
		} else {
			c.jump(bpf.JumpEqual, packetOutgoing, next, drop)
		}
		c.mark(next)
	}
	if test != nil {
		c.locate()
		test(&c, pass, drop)
	}
	c.mark(pass)
	c.add(bpf.RetConstant{Val: snap})
	c.mark(drop)
	c.add(bpf.RetConstant{Val: 0})
	code, err := c.assemble()
	if err == nil && len(code) > maxInstructions {
		err = &FilterError{p.text, 0, fmt.Sprintf("too long: %d instructions, the kernel takes %d", len(code), maxInstructions)}
	}
	return code, err
}

// packetOutgoing is PACKET_OUTGOING: the kind of a frame that this host sends.
const packetOutgoing = 4

// test emits code that jumps to yes or no.
type test func(c *filterCode, yes, no label)

type filterToken struct {
	text string
	at   int
}

func tokenize(s string) (all []filterToken) {
	for i := 0; i < len(s); {
		switch ch := s[i]; {
		case ch == ' ' || ch == '\t' || ch == '\n':
			i++
		case ch == '(' || ch == ')' || ch == '!':
			all = append(all, filterToken{s[i : i+1], i})
			i++
		default:
			from := i
			for i < len(s) && !strings.ContainsRune(" \t\n()!", rune(s[i])) {
				i++
			}
			all = append(all, filterToken{s[from:i], from})
		}
	}
	return all
}

// filterParser reads: or-list of and-lists of tests.
type filterParser struct {
	text   string
	tokens []filterToken
	next   int
}

func (p *filterParser) fail(format string, args ...any) error {
	at := len(p.text)
	if p.next < len(p.tokens) {
		at = p.tokens[p.next].at
	}
	return &FilterError{p.text, at, fmt.Sprintf(format, args...)}
}

func (p *filterParser) peek() string {
	if p.next < len(p.tokens) {
		return strings.ToLower(p.tokens[p.next].text)
	}
	return ""
}

// take moves on if one of the words comes.
func (p *filterParser) take(words ...string) bool {
	if w := p.peek(); w != "" && slices.Contains(words, w) {
		p.next++
		return true
	}
	return false
}

// parse returns nil for a filter that every frame passes.
func (p *filterParser) parse() (test, error) {
	if len(p.tokens) == 1 && p.take("none", "all") {
		return nil, nil
	}
	t, err := p.or(0)
	if err == nil && p.next < len(p.tokens) {
		err = p.fail("%q does not belong here", p.peek())
	}
	return t, err
}

// maxNesting bounds parentheses.
const maxNesting = 100

func (p *filterParser) or(depth int) (test, error) {
	left, err := p.and(depth)
	for err == nil && p.take("or", "||") {
		var right test
		a := left
		right, err = p.and(depth)
		left = func(c *filterCode, yes, no label) {
			next := c.label()
			a(c, yes, next)
			c.mark(next)
			right(c, yes, no)
		}
	}
	return left, err
}

func (p *filterParser) and(depth int) (test, error) {
	left, err := p.not(depth)
	for err == nil && p.take("and", "&&") {
		var right test
		a := left
		right, err = p.not(depth)
		left = func(c *filterCode, yes, no label) {
			next := c.label()
			a(c, next, no)
			c.mark(next)
			right(c, yes, no)
		}
	}
	return left, err
}

func (p *filterParser) not(depth int) (test, error) {
	if depth > maxNesting {
		return nil, p.fail("nested too deeply")
	}
	if p.take("not", "!") {
		t, err := p.not(depth + 1)
		return func(c *filterCode, yes, no label) { t(c, no, yes) }, err
	}
	if p.take("(") {
		t, err := p.or(depth + 1)
		if err == nil && !p.take(")") {
			err = p.fail("a ) is missing")
		}
		return t, err
	}
	return p.primitive()
}

// filterWords are all words that a test may begin with.
var filterWords = []string{
	"default", "roce", "rocev1", "rocev2", "pause", "pfc", "udp", "tcp", "icmp", "icmp6", "arp", "ip", "ip6",
	"port", "src", "dst", "host", "net", "ether", "vlan",
}

func (p *filterParser) primitive() (test, error) {
	word := p.peek()
	at := p.next
	p.next++
	switch word {
	case "default":
		sub := filterParser{text: DefaultFilter, tokens: tokenize(DefaultFilter)}
		return sub.or(0)
	case "roce":
		return anyOf(isPort(protoUDP, portRoCE), isEtherType(etherRoCEv1)), nil
	case "rocev2":
		return isPort(protoUDP, portRoCE), nil
	case "rocev1":
		return isEtherType(etherRoCEv1), nil
	case "pause", "pfc":
		return isEtherType(etherPause), nil
	case "arp":
		return isEtherType(etherARP), nil
	case "ip":
		return isEtherType(etherIPv4), nil
	case "ip6":
		return isEtherType(etherIPv6), nil
	case "icmp":
		return allOf(isEtherType(etherIPv4), isProto(protoICMP)), nil
	case "icmp6":
		return allOf(isEtherType(etherIPv6), isProto(protoICMPv6)), nil
	case "udp", "tcp":
		proto := uint32(protoUDP)
		if word == "tcp" {
			proto = protoTCP
		}
		if p.take("port") {
			return p.port(proto)
		}
		return isProto(proto), nil
	case "port":
		return p.port(protoAny)
	case "src", "dst":
		side := sideSrc
		if word == "dst" {
			side = sideDst
		}
		switch {
		case p.take("host"):
			return p.host(side)
		case p.take("net"):
			return p.net(side)
		}
		return nil, p.fail("%s is followed by host or net", word)
	case "host":
		return p.host(sideAny)
	case "net":
		return p.net(sideAny)
	case "ether":
		if !p.take("host") {
			return nil, p.fail("ether is followed by host")
		}
		return p.hardware()
	case "vlan":
		return p.vlan(), nil
	}
	p.next = at
	switch {
	case word == "":
		return nil, p.fail("a test is missing at the end")
	case word == "none" || word == "all":
		return nil, p.fail("%q stands alone", word)
	}
	likely := func(f func(known, word string) bool) func(string) bool {
		return func(known string) bool { return f(known, word) }
	}
	i := slices.IndexFunc(filterWords, likely(strings.HasPrefix)) // begun
	if i < 0 {
		i = slices.IndexFunc(filterWords, likely(func(k, w string) bool { return strings.HasPrefix(w, k) }))
	}
	if i >= 0 {
		return nil, p.fail("%q is no test; did you mean %q?", word, filterWords[i])
	}
	return nil, p.fail("%q is no test; there are %s", word, strings.ReplaceAll(strings.Join(filterWords, ", "), "pfc, ", ""))
}

func (p *filterParser) port(proto uint32) (test, error) {
	n, err := strconv.ParseUint(p.peek(), 0, 16)
	if err != nil {
		return nil, p.fail("a port is a number from 0 to 65535")
	}
	p.next++
	return isPort(proto, uint32(n)), nil
}

func (p *filterParser) host(s side) (test, error) {
	a, err := netip.ParseAddr(p.peek())
	if err != nil || a.Zone() != "" {
		return nil, p.fail("host is followed by an IPv4 or IPv6 address (names are not looked up)")
	}
	p.next++
	return isNet(s, netip.PrefixFrom(a, a.BitLen())), nil
}

func (p *filterParser) net(s side) (test, error) {
	n, err := netip.ParsePrefix(p.peek())
	if err != nil {
		return nil, p.fail("net is followed by a network, such as 10.0.0.0/8")
	}
	p.next++
	return isNet(s, n.Masked()), nil
}

func (p *filterParser) hardware() (test, error) {
	m, err := net.ParseMAC(p.peek())
	if err != nil || len(m) != 6 {
		return nil, p.fail("ether host is followed by an address, such as 02:00:00:00:00:01")
	}
	p.next++
	high, low := uint32(binary.BigEndian.Uint16(m)), binary.BigEndian.Uint32(m[2:])
	one := func(at uint32) test {
		return func(c *filterCode, yes, no label) {
			more := c.label()
			c.add(bpf.LoadAbsolute{Off: at, Size: 2})
			c.jump(bpf.JumpEqual, high, more, no)
			c.mark(more)
			c.add(bpf.LoadAbsolute{Off: at + 2, Size: 4})
			c.jump(bpf.JumpEqual, low, yes, no)
		}
	}
	return anyOf(one(0), one(6)), nil
}

// vlan looks at the outermost tag, which the kernel takes out of frames that it
// receives.
func (p *filterParser) vlan() test {
	wanted, err := strconv.ParseUint(p.peek(), 0, 12)
	named := err == nil
	if named {
		p.next++
	}
	return func(c *filterCode, yes, no label) {
		outside, inside, id := c.label(), c.label(), c.label()
		c.add(bpf.LoadExtension{Num: bpf.ExtVLANTagPresent})
		c.jump(bpf.JumpEqual, 0, inside, outside)
		c.mark(outside)
		c.add(bpf.LoadExtension{Num: bpf.ExtVLANTag})
		c.goTo(id)
		c.mark(inside)
		c.add(bpf.LoadScratch{Dst: bpf.RegA, N: memTag})
		c.jump(bpf.JumpEqual, noTag, no, id)
		c.mark(id)
		if !named {
			c.goTo(yes)
			return
		}
		c.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xfff})
		c.jump(bpf.JumpEqual, uint32(wanted), yes, no)
	}
}
