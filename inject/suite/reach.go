package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Reach is how the device is reached and connected that a file of cases is for, in the words of `rocescope test`.
type Reach struct {
	Address   string        `yaml:"address"`   // of the device; memory: our own RNIC in this process
	Connect   string        `yaml:"connect"`   // socket (default), cm or hand; a hook needs none
	Port      uint16        `yaml:"port"`      // default 18515
	Hand      []string      `yaml:"hand"`      // the numbers of the queue pair, and of the bystander
	Hook      string        `yaml:"hook"`      // the command of the program that speaks for it
	Pipe      string        `yaml:"pipe"`      // the command of its simulation
	Interface string        `yaml:"interface"` // to send through
	Counters  string        `yaml:"counters"`  // the command that prints its counters
	Patience  time.Duration `yaml:"patience"`  // how long an answer may take
	Profile   string        `yaml:"profile"`   // what it is known not to do

	line, column int
}

// waysToConnect are the values of Reach.Connect.
var waysToConnect = []string{"socket", "cm", "hand"}

// UnmarshalYAML implements yaml.Unmarshaler: it knows its place.
func (t *Reach) UnmarshalYAML(n *yaml.Node) error {
	type plain Reach
	if err := n.Decode((*plain)(t)); err != nil {
		return err
	}
	t.line, t.column = n.Line, n.Column
	return nil
}

// check looks whether what is said can be.
func (t *Reach) check() error {
	switch {
	case t.Address == "" && t.Pipe == "":
		return errors.New("it needs an address, or a pipe")
	case t.Address != "" && t.Pipe != "":
		return errors.New("a simulation behind a pipe has no address")
	case t.Pipe != "" && t.Hook == "":
		return errors.New("pipe needs hook: somebody has to make the simulated core's queue pairs")
	case t.Connect != "" && !slices.Contains(waysToConnect, t.Connect):
		return fmt.Errorf("connect cannot be %q; there are %s", t.Connect, strings.Join(waysToConnect, ", "))
	case t.Hook != "" && t.Connect != "":
		return errors.New("hook makes the connections itself: connect and hook contradict each other")
	case (t.Connect == "hand") != (len(t.Hand) > 0):
		return errors.New("connect: hand and the numbers of hand belong together")
	case len(t.Hand) > 2:
		return errors.New("hand has the numbers of the queue pair, and of the bystander")
	case t.Address == "memory" && (t.Connect != "" || t.Hook != "" || t.Interface != ""):
		return errors.New("our own RNIC in memory needs no connect, hook or interface")
	case t.Patience < 0:
		return errors.New("patience cannot be negative")
	}
	return nil
}
