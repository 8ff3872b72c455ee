package sink

import (
	"errors"
	"slices"

	"github.com/rocescope/rocescope/flows"
)

// Options say what a Collector collects.
type Options struct {
	Run    Run
	Tables []string // names; nil = all
	Writer Writer
	Rows   int // of a block; 0 = 16384
}

const defaultRows = 16 << 10

// maxUnplaced bounds the messages that wait until the wire tells whose they are.
const maxUnplaced = 4096

// Collector makes rows of what a tracker finds. Put Sink into the tracker's options, give it every batch behind the tracker,
// and Close it with the last snapshot; while a capture goes on, Update it with others. It serves the tracker's goroutine.
type Collector struct {
	run    Run
	w      Writer
	rows   int
	blocks []*Block // those of the tables that are wanted; by index in Tables
	ids    *identities
	begun  bool
	err    error // the first, of the writer

	pending []flows.Message // ended within the batch at hand, or whose destination is not known as yet
	state   liveState
	total   Totals

	message messageRow // reused, for rows are passed by pointer
	stream  streamRow
	point   seriesRow
}

// Totals are how many rows were given to the writer.
type Totals struct{ Connections, Streams, Messages, Findings, Series uint64 }

// Rows is their sum.
func (t *Totals) Rows() uint64 {
	return t.Connections + t.Streams + t.Messages + t.Findings + t.Series
}

// The tables, by index in Tables.
const (
	inConnections = iota
	inStreams
	inMessages
	inFindings
	inSeries
)

// NewCollector makes a Collector.
func NewCollector(o Options) (*Collector, error) {
	if o.Rows <= 0 {
		o.Rows = defaultRows
	}
	c := &Collector{run: o.Run, w: o.Writer, rows: o.Rows, ids: newIdentities(addresses{})}
	c.message.run, c.stream.run, c.point.run = &c.run, &c.run, &c.run
	for _, name := range o.Tables {
		if _, err := Find(name); err != nil {
			return nil, err
		}
	}
	for _, t := range Tables() {
		var b *Block
		if o.Tables == nil || slices.Contains(o.Tables, t.Name) {
			b = NewBlock(t)
		}
		c.blocks = append(c.blocks, b)
	}
	return c, nil
}

// Sink returns what the tracker calls.
func (c *Collector) Sink() flows.Sink {
	s := flows.Sink{Connection: c.evicted}
	if c.blocks[inMessages] != nil {
		s.Message = func(m *flows.Message) { c.pending = append(c.pending, *m) }
		s.IWARP = s.Message
	}
	return s
}

// Totals returns how many rows there were so far.
func (c *Collector) Totals() Totals { return c.total }

// Batch takes a batch that the tracker has seen.
func (c *Collector) Batch(b *flows.Batch) error {
	if !c.begun && len(b.Packets) > 0 {
		c.begun, c.run.start = true, b.Packets[0].Base
	}
	if c.blocks[inMessages] != nil {
		c.ids.learn(b)
		c.messages(len(c.pending) > maxUnplaced)
	}
	return c.err
}

// messages makes rows of the messages that have ended. One whose destination is not known waits, unless it is the last chance.
func (c *Collector) messages(all bool) {
	kept := c.pending[:0]
	b := c.blocks[inMessages]
	for i := range c.pending {
		m := &c.pending[i]
		if !c.ids.placeMessage(&c.message.where, m) && !all {
			kept = append(kept, *m)
			continue
		}
		c.message.Message = m
		messages().add(b, &c.message)
		c.total.Messages++
		c.full(b)
	}
	c.pending = kept
}

// full writes a block when it has its rows.
func (c *Collector) full(b *Block) {
	if b.Rows >= c.rows {
		c.write(b)
	}
}

// write gives a block to the writer. Behind an error nothing more is written.
func (c *Collector) write(b *Block) {
	if b == nil || b.Rows == 0 {
		return
	}
	if c.err == nil {
		c.err = c.w.Write(b)
	}
	b.Reset()
}

// flush writes all blocks.
func (c *Collector) flush() error {
	for _, b := range c.blocks {
		c.write(b)
	}
	return c.err
}

// evicted takes the last record of a connection that leaves the table.
func (c *Collector) evicted(f *flows.Connection) {
	c.connection(f)
	if c.state.conns != nil {
		c.changes(f, c.state.at, f.LastSeen)
	} else {
		c.series(f)
	}
	c.state.forget(f.ID)
	delete(c.ids.of, f.ID)
}

// Close takes the last snapshot, writes what is left, and closes the writer.
func (c *Collector) Close(s *flows.Snapshot) error {
	if s != nil {
		for i := range s.Connections {
			c.ids.final(&s.Connections[i])
		}
	}
	c.messages(true)
	if s != nil {
		c.everything(s)
	}
	err := c.flush()
	return errors.Join(err, c.w.Close())
}

// everything makes rows of a snapshot.
func (c *Collector) everything(s *flows.Snapshot) {
	for i := range s.Connections {
		f := &s.Connections[i]
		c.connection(f)
		c.series(f)
	}
	c.found(s)
}

// connection makes the rows of a connection and of its two directions.
func (c *Collector) connection(f *flows.Connection) {
	if b := c.blocks[inConnections]; b != nil {
		connections().add(b, &connectionRow{where: where{run: &c.run}, Connection: f, a: c.ids.end(&f.A), b: c.ids.end(&f.B)})
		c.total.Connections++
		c.full(b)
	}
	b := c.blocks[inStreams]
	if b == nil {
		return
	}
	for d := range f.Streams {
		c.direct(&c.stream.where, f, flows.Direction(d))
		c.stream.Stream, c.stream.all = &f.Streams[d], sum(&f.Streams[d].Messages)
		streams().add(b, &c.stream)
		c.total.Streams++
		c.full(b)
	}
}

// direct says whose a direction of a connection is, from its own record.
func (c *Collector) direct(w *where, f *flows.Connection, d flows.Direction) {
	w.conn, w.transport, w.direction = f.ID, f.Transport.String(), d
	w.src, w.dst = c.ids.end(&f.A), c.ids.end(&f.B)
	if d == flows.BToA {
		w.src, w.dst = w.dst, w.src
	}
}

// series makes the rows of what a connection's details say of how it went.
func (c *Collector) series(f *flows.Connection) {
	b := c.blocks[inSeries]
	if b == nil || f.Detail == nil {
		return
	}
	for i := range f.Detail.Series.Points {
		at := &f.Detail.Series.Points[i]
		for d := range at.Streams {
			if p := &at.Streams[d]; p.Packets > 0 || p.Messages > 0 {
				c.direct(&c.point.where, f, flows.Direction(d))
				c.pointOf(b, at.Time, int64(f.Detail.Series.Interval), p, false)
			}
		}
	}
}

func (c *Collector) pointOf(b *Block, at, interval int64, p *flows.PointStream, live bool) {
	c.point.time, c.point.interval, c.point.PointStream, c.point.live = at, interval, p, live
	series().add(b, &c.point)
	c.total.Series++
	c.full(b)
}

// found makes the rows of a snapshot's findings.
func (c *Collector) found(s *flows.Snapshot) {
	if c.blocks[inFindings] == nil {
		return
	}
	where := newFinder(c, s)
	for i := range s.Findings {
		c.finding(where.row(&s.Findings[i]))
	}
}

func (c *Collector) finding(r *findingRow) {
	b := c.blocks[inFindings]
	findings().add(b, r)
	c.total.Findings++
	c.full(b)
}

// finder knows the connections that findings are about.
type finder struct {
	c  *Collector
	of map[uint32]*flows.Connection
}

func newFinder(c *Collector, s *flows.Snapshot) *finder {
	f := &finder{c, make(map[uint32]*flows.Connection, min(len(s.Findings), len(s.Connections)))}
	for i := range s.Findings {
		if n := s.Findings[i].Conn; n != 0 {
			f.of[n] = nil
		}
	}
	for i := range s.Connections {
		if _, wanted := f.of[s.Connections[i].ID]; wanted {
			f.of[s.Connections[i].ID] = &s.Connections[i]
		}
	}
	return f
}

func (f *finder) row(of *flows.Finding) *findingRow {
	r := &findingRow{where: where{run: &f.c.run, conn: of.Conn, direction: of.Direction}, Finding: of}
	if of.Conn == 0 {
		cleared := *of
		cleared.HasStream = false
		r.Finding = &cleared
	}
	if conn := f.of[of.Conn]; conn != nil {
		f.c.direct(&r.where, conn, of.Direction)
	}
	return r
}
