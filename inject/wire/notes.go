package wire

import (
	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
)

// notes is what a direction writes down: each frame as it came in, with the rule that struck it, and those that rules changed or
// made as they went out. A nil one writes nothing.
type notes struct {
	w        *Wire
	way      fault.Way
	frames   []captures.Frame
	comments []string
	texts    map[*fault.Rule]string
}

func newNotes(w *Wire, way fault.Way) *notes {
	n := &notes{w: w, way: way, texts: map[*fault.Rule]string{}}
	if w.o.Rules != nil {
		for _, r := range w.o.Rules.Rules {
			n.texts[r] = "fault: " + r.Text
			if r.Fault != "" {
				n.texts[r] = "fault " + r.Fault + ": " + r.Text
			}
		}
	}
	return n
}

// plain writes down frames that met no rule.
func (n *notes) plain(in []port.In) {
	for i := range in {
		n.came(&in[i], nil)
	}
	n.flush()
}

// came notes a frame that came in; r struck it, nil for none.
func (n *notes) came(f *port.In, r *fault.Rule) {
	if n != nil {
		n.add(f.Data, f.Time, int(n.way), captures.In, n.texts[r])
	}
}

// went notes a frame that went out because of a rule.
func (n *notes) went(h *fault.Held, now int64) {
	if n == nil {
		return
	}
	n.add(h.Bytes(), now, int(n.way.Other()), captures.Out, n.texts[h.Rule()])
}

func (n *notes) add(data []byte, time int64, iface int, d captures.Direction, comment string) {
	n.frames = append(n.frames, captures.Frame{
		Time: time, Data: data, WireLen: len(data), Iface: iface, Link: dissect.LinkEthernet, HasTime: true, Direction: d,
	})
	n.comments = append(n.comments, comment)
}

// flush hands over what was noted; it has to be called before the frames' memory is given back.
func (n *notes) flush() {
	if n == nil || len(n.frames) == 0 {
		return
	}
	n.w.mu.Lock()
	_, _ = n.w.o.Record.RecordWith(n.frames, n.comments) // what was not written, the recorder counts
	n.w.mu.Unlock()
	n.frames, n.comments = n.frames[:0], n.comments[:0]
}
