package events

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strconv"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
)

// Writer writes a log. It is a sink of the pipeline (engine.Sink), and listens to
// its tracker by Listen. Nothing is allocated for a packet.
type Writer struct {
	to     io.Writer
	buf    []byte
	err    error
	opened map[uint64]struct{} // streams of which the first packet was written, by connection and direction
	known  map[uint32]*known   // connections of which a line was written

	// What the tracker said of the packets of a batch, before the batch came.
	said    []byte
	pending []line
}

// line is one that waits for its packet.
type line struct {
	frame    uint64
	from, to int // of said
}

// New begins a log with its first line.
func New(to io.Writer, program string, files []string) *Writer {
	w := &Writer{to: to, opened: map[uint64]struct{}{}, known: map[uint32]*known{}}
	w.begin(typeLog)
	w.text("schema", Schema)
	w.text("program", program)
	w.value("files", files)
	w.end()
	return w
}

// Listen adds the log to what a tracker tells its sink.
func (w *Writer) Listen(s *flows.Sink) {
	s.Message = also(s.Message, w.message)
	s.IWARP = also(s.IWARP, w.iwarp)
	s.Finding = also(s.Finding, w.finding)
	s.Connection = also(s.Connection, w.connection)
	s.Joined = w.joined(s.Joined)
	s.Step = w.step(s.Step)
}

func also[T any](first, second func(T)) func(T) {
	if first == nil {
		return second
	}
	return func(v T) {
		first(v)
		second(v)
	}
}

// moments are the events that single packets are, by what the tracker marks.
var moments = []struct {
	bit  flows.MarkBits
	name string
}{
	{flows.MarkBadICRC, typeBadICRC},
	{flows.MarkAfterGap, typeGap},
	{flows.MarkReordered, typeReordered},
	{flows.MarkRetransmission, typeResent},
	{flows.MarkDuplicate, typeCopy},
	{flows.MarkNAK, typeNAK},
	{flows.MarkRNR, typeRNR},
	{flows.MarkGhost, typeGhost},
	{flows.MarkCNP, typeCNP},
	{flows.MarkCE, typeCE},
}

// eventful are the marks of all moments.
const eventful = flows.MarkBadICRC | flows.MarkAfterGap | flows.MarkReordered | flows.MarkRetransmission | flows.MarkDuplicate |
	flows.MarkNAK | flows.MarkRNR | flows.MarkGhost | flows.MarkCNP | flows.MarkCE

// Batch implements engine.Sink.
func (w *Writer) Batch(b *engine.Batch) error {
	slices.SortStableFunc(w.pending, func(x, y line) int { return cmp.Compare(x.frame, y.frame) })
	next := 0
	for i := range b.Packets {
		if b.Matched[i] {
			w.one(&b.Packets[i], &b.Marks[i], b.Data[i])
		}
		for ; next < len(w.pending) && w.pending[next].frame <= b.Packets[i].Number; next++ {
			w.say(w.pending[next])
		}
	}
	w.sayAll(next)
	return w.flush()
}

func (w *Writer) say(l line) { w.buf = append(w.buf, w.said[l.from:l.to]...) }

// sayAll writes what is left of what the tracker said.
func (w *Writer) sayAll(next int) {
	for _, l := range w.pending[next:] {
		w.say(l)
	}
	w.pending, w.said = w.pending[:0], w.said[:0]
}

// hold keeps what was written from a place on until its packet comes.
func (w *Writer) hold(from int, frame uint64) {
	at := len(w.said)
	w.said = append(w.said, w.buf[from:]...)
	w.buf = w.buf[:from]
	w.pending = append(w.pending, line{frame, at, len(w.said)})
}

func (w *Writer) one(p *dissect.Packet, m *flows.Mark, frame []byte) {
	if p.Has(dissect.LayerMAD) && m.Bits&flows.MarkBadICRC == 0 {
		if cm, ok := p.CM(frame); ok {
			w.cm(p, &cm)
		}
	}
	if m.Conn != 0 {
		key := uint64(m.Conn)<<1 | uint64(m.Direction)
		if _, ok := w.opened[key]; !ok {
			w.opened[key] = struct{}{}
			w.of(typeStream, p, m)
			w.end()
		}
	}
	if m.Bits&eventful == 0 {
		return
	}
	for i := range moments {
		k := &moments[i]
		if m.Bits&k.bit == 0 {
			continue
		}
		w.of(k.name, p, m)
		switch k.bit {
		case flows.MarkRetransmission:
			w.number("round", uint64(m.Round))
		case flows.MarkNAK:
			w.text("code", p.Syndrome.NAK().String())
		case flows.MarkRNR:
			w.number("wait_ns", uint64(dissect.RNRTimer(uint8(p.Syndrome)&0x1F)))
		}
		w.end()
	}
}

// of begins the event of a packet.
func (w *Writer) of(name string, p *dissect.Packet, m *flows.Mark) {
	w.begin(name)
	w.at(p.Number, p.Time)
	if m.Conn != 0 {
		w.stream(m.Conn, m.Direction)
	}
	w.address("src", p.Src)
	w.address("dst", p.Dst)
	w.number("dest_qp", uint64(p.DestQP))
	w.text("opcode", p.Op().Token)
	w.number("psn", uint64(p.PSN))
}

func (w *Writer) cm(p *dissect.Packet, cm *dissect.CM) {
	w.begin(typeCM)
	w.at(p.Number, p.Time)
	w.address("src", p.Src)
	w.address("dst", p.Dst)
	w.text("message", cm.Attribute.String())
	w.number("local_comm_id", uint64(cm.LocalCommID()))
	w.end()
}

func (w *Writer) message(m *flows.Message) {
	defer w.hold(len(w.buf), max(m.LastFrame, m.AnswerFrame))
	w.begin(typeMessage)
	w.at(m.FirstFrame, m.LastSent)
	w.stream(m.Conn, m.Direction)
	w.number("index", uint64(m.Index))
	w.text("operation", m.Op.String())
	w.text("status", m.Status.String())
	w.number("first_psn", uint64(m.FirstPSN))
	w.number("last_psn", uint64(m.LastPSN))
	w.number("bytes", m.Bytes)
	w.number("resends", uint64(m.Resends))
	w.took(m)
}

// took ends the line of a message with its times.
func (w *Writer) took(m *flows.Message) {
	w.signed("first_seen_ns", m.FirstSeen)
	if d, ok := m.Latency(); ok {
		w.signed("latency_ns", int64(d))
	}
	w.number("last_frame", m.LastFrame)
	w.end()
}

func (w *Writer) iwarp(m *flows.Message) {
	defer w.hold(len(w.buf), max(m.LastFrame, m.AnswerFrame))
	w.begin(typeIWARP)
	w.at(m.FirstFrame, m.LastSent)
	w.stream(m.Conn, m.Direction)
	w.number("index", uint64(m.Index))
	from, to := m.IWARP.Ends()
	w.text("src", from.String())
	w.text("dst", to.String())
	w.text("operation", m.Op.String())
	w.text("opcode", m.IWARP.Opcode.String())
	w.text("status", m.Status.String())
	if m.Remote() {
		w.number("stag", uint64(m.RKey))
		w.number("offset", m.VA)
	}
	if m.Op == flows.OpRead {
		w.number("sink_stag", uint64(m.IWARP.SinkSTag))
		w.number("sink_offset", m.IWARP.SinkOffset)
	}
	w.number("bytes", m.Bytes)
	w.number("segments", uint64(m.Segments))
	w.took(m)
}

func (w *Writer) finding(f *flows.Finding) {
	defer w.hold(len(w.buf), f.Frame)
	w.found(typeFinding, f)
	w.end()
}

func (w *Writer) found(name string, f *flows.Finding) {
	w.begin(name)
	w.at(f.Frame, f.Time)
	if f.Conn != 0 {
		w.stream(f.Conn, f.Direction)
	}
	w.text("id", f.ID.String())
	w.text("severity", f.Severity().String())
	w.value("summary", f.Sentence())
}

func (w *Writer) connection(c *flows.Connection) {
	defer w.hold(len(w.buf), 0)
	w.begin(typeConnection)
	w.at(c.FirstFrame, c.FirstSeen)
	w.peers(c)
	if c.Established != 0 {
		w.signed("established_ns", c.Established)
	}
	w.text("state_a", c.A.State.String())
	w.text("state_b", c.B.State.String())
	w.end()
	k := w.known[c.ID]
	for d, q := range [2]*flows.QP{&c.A, &c.B} {
		for _, s := range q.History {
			if k == nil || !k.told(flows.Direction(d), s) {
				w.state(c.ID, flows.Direction(d), s)
			}
		}
	}
	delete(w.known, c.ID)
	for d := range uint64(2) {
		delete(w.opened, uint64(c.ID)<<1|d)
	}
}

func (w *Writer) qp(name string, q *flows.QP) {
	w.address(name, q.Addr)
	if q.Known {
		w.number(name+"_qp", uint64(q.QPN))
	}
}

// Close writes what only the whole capture tells, and the last line.
func (w *Writer) Close(s *flows.Snapshot) error {
	w.sayAll(0)
	if s != nil {
		for i := range s.Connections {
			w.connection(&s.Connections[i])
			w.sayAll(0)
			if err := w.flush(); err != nil {
				return err
			}
		}
		for i := range s.Findings {
			f := &s.Findings[i]
			w.found(typeVerdict, f)
			w.number("count", f.Count)
			w.number("last_frame", f.Last)
			w.end()
		}
	}
	w.begin(typeEnd)
	if s != nil {
		w.number("frames", s.Packets)
		w.number("connections", uint64(len(s.Connections))+s.Evicted)
	}
	w.end()
	return w.flush()
}

func (w *Writer) flush() error {
	if w.err == nil && len(w.buf) > 0 {
		_, w.err = w.to.Write(w.buf)
	}
	w.buf = w.buf[:0]
	return w.err
}

func (w *Writer) begin(name string) {
	w.buf = append(append(append(w.buf, `{"type":"`...), name...), '"')
}

func (w *Writer) end() { w.buf = append(w.buf, "}\n"...) }

func (w *Writer) key(name string) {
	w.buf = append(append(append(w.buf, `,"`...), name...), `":`...)
}

// at is the frame that proves an event, and its time.
func (w *Writer) at(frame uint64, time int64) {
	if frame != 0 {
		w.number("frame", frame)
	}
	if time != 0 {
		w.signed("time_ns", time)
	}
}

func (w *Writer) stream(conn uint32, d flows.Direction) {
	w.number("connection", uint64(conn))
	w.text("direction", d.String())
}

// text writes a word of ours, which needs no escaping.
func (w *Writer) text(name, v string) {
	w.key(name)
	w.buf = append(append(append(w.buf, '"'), v...), '"')
}

func (w *Writer) number(name string, v uint64) {
	w.key(name)
	w.buf = strconv.AppendUint(w.buf, v, 10)
}

func (w *Writer) signed(name string, v int64) {
	w.key(name)
	w.buf = strconv.AppendInt(w.buf, v, 10)
}

func (w *Writer) address(name string, a dissect.Addr) {
	w.key(name)
	w.buf = append(a.Netip().AppendTo(append(w.buf, '"')), '"')
}

// value writes what may need escaping.
func (w *Writer) value(name string, v any) {
	text, err := json.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.key(name)
	w.buf = append(w.buf, text...)
}
