package diff

import "github.com/rocescope/rocescope/internal/privacy"

// mask masks who talked in what was found of packets. Which packets belong together was found out from the originals.
func (r *Result) mask(m *privacy.Mask) {
	for i := range r.Streams {
		s := &r.Streams[i]
		s.Src, s.Dst = m.Addr(s.Src), m.Addr(s.Dst)
	}
	for i := range r.Packets {
		for j := range r.Packets[i].Changes {
			c := &r.Packets[i].Changes[j]
			c.Before, c.After = m.Value(c.Field, c.Before), m.Value(c.Field, c.After)
		}
	}
}
