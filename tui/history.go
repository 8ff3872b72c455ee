package tui

import "slices"

// mostVisits bounds how many views are remembered.
const mostVisits = 100

// history is the views that one was in, in the order of the visits, each with those that lay below it. They are as one left them.
type history struct {
	stacks [][]view
	at     int // the one that is shown
}

// visit notes the view in front as the newest; what lay ahead of the one before is forgotten.
func (h *history) visit(stack []view) {
	if len(h.stacks) > 0 {
		if now := h.stacks[h.at]; now[len(now)-1] == stack[len(stack)-1] {
			h.stacks[h.at] = slices.Clone(stack)
			return
		}
		h.stacks = h.stacks[:h.at+1]
	}
	if len(h.stacks) == mostVisits {
		h.stacks = slices.Delete(h.stacks, 0, 1)
	}
	h.stacks = append(h.stacks, slices.Clone(stack))
	h.at = len(h.stacks) - 1
}

// visitAgain goes back and forth among the views that one was in.
func (s *screen) visitAgain(step int) {
	h := &s.visits
	switch to := h.at + step; {
	case to < 0:
		s.say("No view was visited before this one.")
	case to >= len(h.stacks):
		s.say("This is the view that was visited last.")
	default:
		h.at = to
		s.last, s.stack, s.zoom = s.top(), slices.Clone(h.stacks[to]), false
		s.top().refresh(s)
	}
}
