package fault

// Count is what a rule did on one way.
type Count struct {
	Rule    *Rule
	Way     Way
	Matched uint64 // packets that its filter let pass
	Struck  uint64 // of these
	Failed  uint64 // were to be struck, and did not have what the action is about, or no room for it
}

// Publish lets others see what was counted so far. It is the lane's goroutine that calls it, once a batch.
func (l *Lane) Publish() {
	for _, r := range l.rules {
		r.published[0].Store(r.matched)
		r.published[1].Store(r.hits - r.failed)
		r.published[2].Store(r.failed)
	}
}

// Counts is what the lane's rules did, as it was published last. Any goroutine may ask.
func (l *Lane) Counts() []Count {
	all := make([]Count, len(l.rules))
	for i, r := range l.rules {
		all[i] = Count{r.Rule, l.way, r.published[0].Load(), r.published[1].Load(), r.published[2].Load()}
	}
	return all
}

// Full is how many frames met no fate, or were not made, because so many were held already that there was no memory for them.
func (l *Lane) Full() uint64 { return l.counts.full.Load() }

// Held is how many frames the lane holds. It is the lane's goroutine that asks.
func (l *Lane) Held() int { return l.holding + int(l.posts.Load()) }
