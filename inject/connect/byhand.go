package connect

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/rocescope/rocescope/dissect"
)

// parameterKeys are the keys of parameters given by hand. An integer's getter returns 0 for what is not told.
var parameterKeys = []struct {
	name string
	bits int
	hex  bool
	get  func(*Parameters) uint64
	set  func(*Parameters, uint64)
}{
	{"qpn", 24, true, func(p *Parameters) uint64 { return uint64(p.QPN) }, func(p *Parameters, v uint64) { p.QPN = uint32(v) }},
	{"psn", 24, true, func(p *Parameters) uint64 { return uint64(p.PSN) }, func(p *Parameters, v uint64) { p.PSN = dissect.PSN(v) }},
	{"rkey", 32, true, func(p *Parameters) uint64 { return uint64(p.Memory.RKey) }, func(p *Parameters, v uint64) { p.Memory.RKey = uint32(v) }},
	{"va", 64, true, func(p *Parameters) uint64 { return p.Memory.VA }, func(p *Parameters, v uint64) { p.Memory.VA = v }},
	{"length", 64, false, func(p *Parameters) uint64 { return p.Memory.Length }, func(p *Parameters, v uint64) { p.Memory.Length = v }},
	{"mtu", 16, false, func(p *Parameters) uint64 { return uint64(p.MTU) }, func(p *Parameters, v uint64) { p.MTU = int(v) }},
	{"pkey", 16, true, func(p *Parameters) uint64 { return uint64(p.PKey) }, func(p *Parameters, v uint64) { p.PKey = uint16(v) }},
	{"qkey", 32, true, func(p *Parameters) uint64 { return uint64(p.QKey) }, func(p *Parameters, v uint64) { p.QKey = uint32(v) }},
	{"flow", 20, true, func(p *Parameters) uint64 { return uint64(p.FlowLabel) }, func(p *Parameters, v uint64) { p.FlowLabel = uint32(v) }},
	{"responder", 8, false, func(p *Parameters) uint64 { return uint64(p.ResponderResources) }, func(p *Parameters, v uint64) { p.ResponderResources = uint8(v) }},
	{"initiator", 8, false, func(p *Parameters) uint64 { return uint64(p.InitiatorDepth) }, func(p *Parameters, v uint64) { p.InitiatorDepth = uint8(v) }},
	{"timeout", 5, false, func(p *Parameters) uint64 { return uint64(p.AckTimeout) }, func(p *Parameters, v uint64) { p.AckTimeout = uint8(v) }},
	{"retry", 3, false, func(p *Parameters) uint64 { return uint64(p.RetryCount) }, func(p *Parameters, v uint64) { p.RetryCount = uint8(v) }},
	{"rnr", 3, false, func(p *Parameters) uint64 { return uint64(p.RNRRetryCount) }, func(p *Parameters, v uint64) { p.RNRRetryCount = uint8(v) }},
}

var transportNames = map[string]dissect.Transport{"rc": dissect.RC, "uc": dissect.UC, "ud": dissect.UD}

// ParseParameters reads parameters given by hand:
//
//	qpn=0x11,psn=0x1b4c55,rkey=0x1234,va=0x7f0000001000,length=1048576,mtu=1024,addr=10.0.0.2,transport=rc
//
// in any order; qpn is needed. Integers are decimal, or hexadecimal after 0x. Keys that are not given keep the values of base.
func ParseParameters(text string, base Parameters) (Parameters, error) {
	p := base
	seen := map[string]bool{}
	for item := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok {
			return base, fmt.Errorf("%q: write KEY=VALUE, with commas between; keys are %s", item, keyNames())
		}
		if seen[key] {
			return base, fmt.Errorf("%s is given twice", key)
		}
		seen[key] = true
		if err := p.setByHand(key, value); err != nil {
			return base, err
		}
	}
	if !seen["qpn"] {
		return base, fmt.Errorf("%q: there is no qpn", text)
	}
	if err := p.Check(); err != nil {
		return base, err
	}
	return p, nil
}

func (p *Parameters) setByHand(key, value string) error {
	switch key {
	case "addr":
		a, err := netip.ParseAddr(value)
		if err != nil || a.Zone() != "" {
			return fmt.Errorf("addr=%s: it is to be an IPv4 or IPv6 address", value)
		}
		p.Address = a.Unmap()
		return nil
	case "transport":
		t, ok := transportNames[strings.ToLower(value)]
		if !ok {
			return fmt.Errorf("transport=%s: it is to be rc, uc or ud", value)
		}
		p.Transport = t
		return nil
	}
	for i := range parameterKeys {
		k := &parameterKeys[i]
		if k.name != key {
			continue
		}
		digits, base := value, 10
		if rest, hex := strings.CutPrefix(strings.ToLower(value), "0x"); hex {
			digits, base = rest, 16
		}
		v, err := strconv.ParseUint(digits, base, k.bits)
		if err != nil {
			return fmt.Errorf("%s=%s: it is to be an integer of at most %d bits, decimal or 0x…", key, value, k.bits)
		}
		k.set(p, v)
		return nil
	}
	return fmt.Errorf("%s: there is no such key; keys are %s", key, keyNames())
}

func keyNames() string {
	var b strings.Builder
	for i := range parameterKeys {
		b.WriteString(parameterKeys[i].name + ", ")
	}
	return b.String() + "addr, transport"
}

// String is what ParseParameters reads, with all that was told; QPN and PSN are always there.
func (p Parameters) String() string {
	var b []byte
	for i := range parameterKeys {
		k := &parameterKeys[i]
		v := k.get(&p)
		if v == 0 && i > 1 {
			continue
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(append(b, k.name...), '=')
		if k.hex {
			b = fmt.Appendf(b, "%#x", v)
		} else {
			b = strconv.AppendUint(b, v, 10)
		}
	}
	if p.Address.IsValid() {
		b = fmt.Appendf(b, ",addr=%s", p.Address)
	}
	return fmt.Sprintf("%s,transport=%s", b, strings.ToLower(p.Transport.String()))
}
