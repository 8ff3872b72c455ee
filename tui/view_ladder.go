package tui

import (
	"fmt"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/tui/cells"
	"github.com/rocescope/rocescope/tui/draw"
)

// ladderWindow is how many packets of a connection a ladder holds at a time; farther ones are read when one comes near.
const ladderWindow = 3000

// ladderWait is the silence that a ladder shows as one.
const ladderWait = 10 * time.Millisecond

// ladderView is the packets of a connection as arrows between its two queue pairs.
type ladderView struct {
	scroller
	conn   uint32
	list   packetGrid // only its view and cache are used
	want   uint64     // a packet to go to
	rows   []row
	from   int // place of rows[0] in the view
	steps  []draw.Step
	rungs  []draw.Rung
	opened map[uint64]bool // frames that are not folded
	loaded int             // packets of the view when the rows were read
	ends   [2]end          // the connection's queue pairs when the arrows were pointed
}

// end is a queue pair, as far as it is known.
type end struct {
	flows.QPName
	known bool
}

func endOf(q *flows.QP) end { return end{q.QPName, q.Known} }

// takes says that a packet goes to it.
func (e *end) takes(p *dissect.Packet) bool { return e.known && p.Dst == e.Addr && p.DestQP == e.QPN }

func newLadder(conn uint32, frame uint64) *ladderView {
	return &ladderView{conn: conn, want: frame, opened: map[uint64]bool{}}
}

func (v *ladderView) title(s *screen) string { return "Ladder of " + s.connTitle(v.conn) }

func (v *ladderView) refresh(s *screen) {
	if v.list.view == nil {
		v.list.view = s.ses.index.OfConnection(s.ses.ctx, v.conn)
		if v.want == 0 && !s.follow {
			v.want = v.start(s)
		}
	}
	v.load(s)
}

// start is the packet that a ladder opens at where none was asked for: the one that proves the gravest finding; 0, the first
// of all, without any.
func (v *ladderView) start(s *screen) (frame uint64) {
	worst := flows.Note
	for i := range s.snapshot().Findings {
		f := &s.snapshot().Findings[i]
		if f.Conn == v.conn && f.Frame > 0 && (f.Severity() > worst || frame == 0) {
			frame, worst = f.Frame, f.Severity()
		}
	}
	return frame
}

// load reads the packets around the one that is wanted, where they are not in memory.
func (v *ladderView) load(s *screen) {
	view := v.list.view
	s.watch(view)
	n := view.Len()
	if s.frozen != nil {
		n, _ = view.Find(s.frozen.packets + 1)
	}
	if n == 0 {
		return
	}
	at := v.from
	switch {
	case v.want > 0:
		at, _ = view.Find(v.want)
		complete, err := view.State()
		if at >= n && !complete && err == nil {
			return
		}
	case s.follow && s.frozen == nil && s.ses.Live():
		at = n - 1
	case v.cur > v.n-60 && v.from+len(v.rows) < n && len(v.rows) > 0:
		at = v.from + len(v.rows)
	case v.cur < 60 && v.from > 0 && len(v.rows) > 0:
		at = v.from
	case len(v.rows) > 0:
		return
	}
	if inside := at >= v.from && at < v.from+len(v.rows); inside && v.want > 0 {
		v.show(v.want)
		v.want = 0
		return
	}
	from := max(0, min(at-ladderWindow/2, n-ladderWindow))
	to := min(n, from+ladderWindow)
	if from == v.from && len(v.rows) == to-from && v.loaded == n {
		return
	}
	keep, follows := v.frame(), s.follow && s.ses.Live() && s.frozen == nil
	if v.want > 0 {
		keep = v.want
	} else if follows {
		keep = 0
	}
	var numbers []uint64
	for i := from; i < to; i++ {
		if f, ok := view.Frame(i); ok {
			numbers = append(numbers, f)
		}
	}
	ses := s.ses
	s.start(fmt.Sprintf("ladder %p", v), func() func(*screen) {
		rows := ses.rows(numbers)
		steps := make([]draw.Step, 0, len(rows))
		for i := range rows {
			steps = append(steps, stepOf(ses, &rows[i]))
		}
		return func(s *screen) {
			v.rows, v.steps, v.from, v.loaded = rows, steps, from, n
			v.orient(s)
			v.fold()
			switch {
			case keep > 0:
				v.show(keep)
				v.want = 0
			case follows:
				v.cur = v.n - 1
			}
			v.fit()
		}
	})
}

func stepOf(ses *Session, r *row) draw.Step {
	st := draw.StepOf(&r.Packet, &r.Mark)
	for _, o := range ses.index.FindingsOf(r.Number) {
		f := flows.Finding{ID: o.ID}
		if st.Finding == "" || f.Severity() > st.Severity {
			st.Finding, st.Severity = f.Check().Title, f.Severity()
		}
	}
	return st
}

// orient points the arrows. Packets that passed before the tracker knew whose partner is whose have a direction of their own
// stream's only; what they say of themselves is surer: from whom, and to which queue pair.
func (v *ladderView) orient(s *screen) {
	k := s.connection(v.conn)
	if k == nil {
		return
	}
	v.ends = [2]end{endOf(&k.A), endOf(&k.B)}
	for i := range v.rows {
		p := &v.rows[i].Packet
		switch toA, toB := v.ends[0].takes(p), v.ends[1].takes(p); {
		case toB && !toA:
			v.steps[i].Direction = flows.AToB
		case toA && !toB:
			v.steps[i].Direction = flows.BToA
		}
	}
}

// turned says that the connection's queue pairs are others than when the arrows were pointed.
func (v *ladderView) turned(k *flows.Connection) bool {
	return v.ends != [2]end{endOf(&k.A), endOf(&k.B)}
}

func (v *ladderView) fold() {
	v.rungs = draw.Fold(v.steps, ladderWait, func(f uint64) bool { return v.opened[f] })
	v.n = len(v.rungs)
	v.fit()
}

// show puts the cursor on a packet; the fold that it is in is opened around it.
func (v *ladderView) show(frame uint64) {
	v.opened[frame] = true
	v.fold()
	for i := range v.rungs {
		if v.rungs[i].Has(frame) && v.rungs[i].Kind <= draw.RungFolded {
			v.cur = i
			v.top = i - v.height/3
			break
		}
	}
	v.fit()
}

func (v *ladderView) goTo(s *screen, frame uint64) {
	s.follow = false
	v.want = frame
	v.load(s)
}

// frame is the packet under the cursor; 0 for none.
func (v *ladderView) frame() uint64 {
	for i := v.cur; i >= 0 && i < len(v.rungs); i-- {
		if f := v.rungs[i].Frame; f > 0 {
			return f
		}
	}
	return 0
}

func (v *ladderView) draw(s *screen, c *cells.Canvas) {
	v.height = c.H - 1
	v.load(s)
	k := s.connection(v.conn)
	if k == nil || len(v.rungs) == 0 {
		c.Text(2, 1, cells.Faint, "…")
		return
	}
	if v.turned(k) {
		v.orient(s)
		v.fold()
	}
	v.fit()
	l := draw.Ladder{A: s.qpName(&k.A), B: s.qpName(&k.B), Start: s.base(), Rungs: v.rungs, Top: v.top, Selected: v.cur}
	l.Draw(c.Sub(0, 0, c.W-1, c.H))
	v.bar(c, c.W-1, 1)
}

func (v *ladderView) act(s *screen, a action) bool {
	switch a {
	case doInto:
		if v.cur >= len(v.rungs) {
			return true
		}
		if r := &v.rungs[v.cur]; r.Kind == draw.RungFolded {
			v.unfold(r)
		} else if f := v.frame(); f > 0 {
			s.goFrame(f)
		}
	case doRight:
		if v.cur < len(v.rungs) && v.rungs[v.cur].Kind == draw.RungFolded {
			v.unfold(&v.rungs[v.cur])
		}
	case doLeft:
		f := v.frame()
		v.opened = map[uint64]bool{}
		v.fold()
		for i := range v.rungs {
			if v.rungs[i].Has(f) {
				v.cur = i
				break
			}
		}
		v.fit()
	case doLadder, doLadderHere:
		return true
	default:
		if !v.scroller.act(a) {
			return false
		}
		s.follow = false
	}
	return true
}

func (v *ladderView) unfold(r *draw.Rung) {
	for i := range v.steps {
		if r.Has(v.steps[i].Frame) {
			v.opened[v.steps[i].Frame] = true
		}
	}
	v.fold()
}

func (v *ladderView) mouse(s *screen, m mouseEvent) bool {
	if m.wheel != 0 {
		s.follow = false
		v.wheel(m.wheel)
	} else if i := v.top + m.y - 1; m.y > 0 && i < v.n {
		again := i == v.cur
		v.cur = i
		if again {
			v.act(s, doInto)
		}
	}
	return true
}

func (v *ladderView) here(*screen) place { return place{conn: v.conn, frame: v.frame()} }
func (v *ladderView) grid() gridLike     { return nil }
func (v *ladderView) footer() []action   { return []action{doInto, doNextFinding, doPackets} }

// packet is the row of the packet under the cursor.
func (v *ladderView) packet() *row {
	f := v.frame()
	for i := range v.rows {
		if v.rows[i].Number == f {
			return &v.rows[i]
		}
	}
	return nil
}
