package flows

import "fmt"

// reasonSet is the sentences that say why pairs were inferred, each kept once:
// a million connections have a few dozen of them, and need nothing else that is
// not in their hot record.
type reasonSet struct {
	list   []string
	number map[string]uint32 // in list, from 1
}

// maxReasons bounds the sentences kept; further ones go into extras.
const maxReasons = 4096

// because notes why a connection's pair was inferred.
func (t *Tracker) because(c *conn, why string) {
	n, ok := t.reasons.number[why]
	if !ok {
		if len(t.reasons.list) == maxReasons {
			t.rare(c).why = why
			return
		}
		if t.reasons.number == nil {
			t.reasons.number = map[string]uint32{}
		}
		t.reasons.list = append(t.reasons.list, why)
		n = uint32(len(t.reasons.list))
		t.reasons.number[why] = n
	}
	c.why = n
}

// whyOf returns what is known of why two queue pairs are one connection.
func (t *Tracker) whyOf(c *conn) string {
	if x := t.extrasOf(c); x != nil && x.why != "" {
		if x.successor != 0 {
			return fmt.Sprintf("its partner was found late, and it goes on as connection %d: %s", t.publicID(x.successor), x.why)
		}
		return x.why
	}
	if c.why != 0 {
		return t.reasons.list[c.why-1]
	}
	if c.evidence == ByDETH {
		return "every datagram names its source queue pair"
	}
	return ""
}
