package privacy

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"sync"

	"github.com/rocescope/rocescope/dissect"
)

// addressText is what may be an address in a text: hexadecimal digits, colons and dots; one that is none stays.
var addressText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)[0-9a-f:]*:\d{1,3}(?:\.\d{1,3}){3}\b|[0-9a-f]*:[0-9a-f:]*[0-9a-f:]|\b(?:[0-9a-f]{2}-){5}[0-9a-f]{2}\b|\b\d{1,3}(?:\.\d{1,3}){3}\b|\bLID \d+\b`)
})

// Text masks the addresses in a text.
func (m *Mask) Text(text string) string {
	if text == "" {
		return ""
	}
	return addressText().ReplaceAllStringFunc(text, func(word string) string {
		if n := len(word) - 1; n > 0 && word[n] == ':' && word[n-1] != ':' { // the sentence's
			return m.Text(word[:n]) + ":"
		}
		if a, err := netip.ParseAddr(word); err == nil {
			return m.Addr(dissect.AddrFrom(a)).String()
		}
		if h, err := net.ParseMAC(word); err == nil && len(h) == 6 {
			v := uint64(0)
			for _, b := range h {
				v = v<<8 | uint64(b)
			}
			v = m.MAC(v)
			for i := range h {
				h[i] = byte(v >> (40 - 8*i))
			}
			return h.String()
		}
		if lid, ok := lidText(word); ok {
			return m.Addr(dissect.Addr{Lo: lid}).String()
		}
		return word
	})
}

func lidText(word string) (uint64, bool) {
	const prefix = "LID "
	if len(word) <= len(prefix) || word[:len(prefix)] != prefix {
		return 0, false
	}
	v, err := strconv.ParseUint(word[len(prefix):], 10, 16)
	return v, err == nil
}
