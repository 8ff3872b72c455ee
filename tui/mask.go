package tui

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync"

	"github.com/rocescope/rocescope/dissect"
)

// mask gives addresses and keys names that stay the same while the program runs, so that a screen can be shown to others.
type mask struct {
	mu    sync.Mutex
	names map[string]string
}

func newMask() *mask { return &mask{names: map[string]string{}} }

func (m *mask) name(kind, value string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := kind + value
	if n, ok := m.names[key]; ok {
		return n
	}
	count := 1
	for k := range m.names {
		if strings.HasPrefix(k, kind) {
			count++
		}
	}
	m.names[key] = fmt.Sprintf("%s%d", kind, count)
	return m.names[key]
}

func (m *mask) addr(a dissect.Addr) string { return m.name("host-", a.String()) }
func (m *mask) key(k uint32) string        { return m.name("key-", fmt.Sprintf("%#x", k)) }

var (
	likeIP   = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b|\b[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?:\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})?`)
	likeMAC  = regexp.MustCompile(`\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b`)
	likeRKey = regexp.MustCompile(`(?i)(r_?key[= ]+)(0x[0-9a-f]+)`)
)

// text masks what looks like an address or a key in a text.
func (m *mask) text(t string) string {
	t = likeMAC.ReplaceAllStringFunc(t, func(v string) string { return m.name("mac-", v) })
	t = likeIP.ReplaceAllStringFunc(t, func(v string) string {
		a, err := netip.ParseAddr(v)
		if err != nil {
			return v
		}
		return m.addr(dissect.AddrFrom(a))
	})
	return likeRKey.ReplaceAllStringFunc(t, func(v string) string {
		parts := likeRKey.FindStringSubmatch(v)
		var k uint32
		fmt.Sscanf(strings.ToLower(parts[2]), "0x%x", &k)
		return parts[1] + m.key(k)
	})
}

// masked is a text as it may be shown.
func (s *screen) masked(t string) string {
	if s.privacy == nil {
		return t
	}
	return s.privacy.text(t)
}
