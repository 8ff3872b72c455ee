package tui

// How lists and what explains them share the height.
const (
	leastSplit, usualSplit, mostSplit = 20, 45, 80
	splitStep                         = 5
)

// resplit gives the list more or less of the height.
func (s *screen) resplit(by int) {
	if next := s.split + by; next >= leastSplit && next <= mostSplit {
		s.split = next
	}
}

// holdSplit has the line between a list and what explains it follow the mouse.
func (s *screen) holdSplit() {
	s.dragged = func(s *screen, _, y int) {
		if s.body.h > 0 {
			s.split = max(leastSplit, min((y*100+s.body.h-1)/s.body.h, mostSplit))
		}
	}
}
