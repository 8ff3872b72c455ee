package fault

import "github.com/rocescope/rocescope/internal/filter"

func fated(f fate) step { return step{fate: &f} }

func makeDrop(a *args) (step, error) { return fated(fate{kind: fateDrop}), a.err }

func makeDuplicate(a *args) (step, error) {
	n := a.number("n", 1, 64)
	s := fated(fate{kind: fateDuplicate, n: n})
	s.sends = n
	return s, a.err
}

func makeDelay(a *args) (step, error) {
	if !a.given("time") {
		a.fail("time= is missing: by how much")
	}
	return fated(fate{kind: fateDelay, time: a.time("time")}), a.err
}

func makeReorder(a *args) (step, error) {
	f := fate{kind: fateReorder, n: a.number("by", 1, 1<<20), time: a.time("most")}
	if text, ok := a.text("until"); ok {
		if a.given("by") {
			a.fail("by= and until= cannot both be")
		}
		u, err := filter.Compile(text)
		switch {
		case err != nil:
			a.fail("until: %w", err)
		case u.Needs() > filter.NeedPacket:
			a.fail("until=%s: what tracking knows cannot be waited for", text)
		}
		f.until = u
	}
	return fated(f), a.err
}

func makeSwap(a *args) (step, error) {
	return fated(fate{kind: fateSwap, time: a.time("most")}), a.err
}

func makeHold(a *args) (step, error) {
	f := fate{kind: fateHold, n: a.number("n", 2, mostHeld), time: a.time("time")}
	f.turned = a.choice("order", "same", "reverse") == 1
	f.last = a.choice("keep", "all", "last") == 1
	if f.last && f.turned {
		a.fail("order=reverse says nothing where only the last one leaves")
	}
	return fated(f), a.err
}
