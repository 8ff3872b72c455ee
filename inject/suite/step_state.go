package suite

import (
	"errors"
	"fmt"
	"strings"
)

// stateNames are the states of a queue pair, as a step asks for them.
var stateNames = []string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"}

// stateName is a hook's word for a state, as these have it.
func stateName(word string) string {
	if word = strings.ToUpper(word); word == "ERR" { // verbs' word
		return "ERROR"
	}
	return word
}

// comesTo waits for a state of the device's queue pair.
func (r *runner) comesTo(p *pair, s *Step) error {
	if p.owed > 0 {
		return errors.New("completions of the device are due, and to ask for its state would take them: state comes behind the step that waits")
	}
	var seen string
	var failure error
	is := func() bool {
		var a *Answer
		if a, failure = r.l.ask(&Command{Do: "completions", QP: pairName(p.index)}); failure != nil {
			return true
		}
		seen = stateName(a.State)
		return seen == s.State
	}
	if _, err := r.await(r.within(s), is); err != nil {
		return err
	}
	switch {
	case failure != nil:
		return failure
	case seen == "":
		return fmt.Errorf("%w: the hook tells no state", ErrUnsupported)
	case seen != s.State:
		r.problem(Problem{
			Kind: "state", Required: "the device's queue pair is in " + s.State, Seen: "it is in " + seen, Packets: r.packets(r.from, len(r.w.records)),
		})
	}
	p.dead = p.dead || seen == "ERROR"
	return nil
}
