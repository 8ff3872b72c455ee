package suite

import "slices"

// meantFor are the cases that are meant to find a misbehaviour of our RNIC.
func (s *Scenario) meantFor(misbehaviour string) (ids []string) {
	for i := range s.Cases {
		if slices.Contains(s.Cases[i].Finds, misbehaviour) {
			ids = append(ids, s.Cases[i].ID)
		}
	}
	return ids
}

// finds reports whether the case noticed something: also where what it noticed is only shown.
func (c *CaseResult) finds() bool { return len(c.Problems) > 0 && c.Status != Broken }
