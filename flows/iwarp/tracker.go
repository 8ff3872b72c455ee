package iwarp

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// Sink takes what a Tracker has found. What the pointers point at is borrowed
// for the call. A nil func is not called.
type Sink struct {
	FPDU       func(*FPDU)
	Message    func(*Message)
	Event      func(*Event)
	Connection func(*Connection) // final records of connections that were forgotten
}

// Options bound a Tracker. The zero value is good.
type Options struct {
	Sink           Sink
	MaxConnections int           // the longest idle are forgotten beyond; 0 = 4 Ki
	MaxBytes       int           // of streams that wait for more; 0 = 64 MiB
	NextID         func() uint32 // numbers connections; nil = 1 and up
}

// Tracker follows all iWARP connections of a capture. It serves one goroutine.
type Tracker struct {
	opt    Options
	table  map[key]*conn
	newest *conn // the list runs from the newest to the oldest
	oldest *conn
	lastID uint32
	bytes  int // held by all streams
	fpdu   FPDU
	plain  []byte // a ULPDU without its markers
}

// key names a TCP connection; the lower end comes first.
type key struct {
	lo, hi End
	vlan   int16
}

// End is one end of a TCP connection.
type End struct {
	Addr dissect.Addr
	Port uint16
}

func (e End) less(o End) bool {
	return cmp.Or(cmp.Compare(e.Addr.Hi, o.Addr.Hi), cmp.Compare(e.Addr.Lo, o.Addr.Lo), cmp.Compare(e.Port, o.Port)) < 0
}

// New returns a tracker.
func New(o Options) *Tracker {
	if o.MaxConnections <= 0 {
		o.MaxConnections = 4 << 10
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	t := &Tracker{opt: o, table: map[key]*conn{}}
	if o.NextID == nil {
		t.opt.NextID = func() uint32 { t.lastID++; return t.lastID }
	}
	return t
}

// Packet follows a TCP packet. It reports whether this belongs to an iWARP
// connection.
func (t *Tracker) Packet(p *dissect.Packet, frame []byte) bool {
	if !p.Has(dissect.LayerTCP) || p.Fragment {
		return false
	}
	src, dst := End{p.Src, p.SrcPort}, End{p.Dst, p.DstPort}
	k := key{src, dst, int16(p.VLAN())}
	if dst.less(src) {
		k.lo, k.hi = dst, src
	}
	c := t.newest // most often one more packet of the connection before
	if c == nil || c.key != k {
		c = t.table[k]
	}
	starts := p.Has(dissect.LayerMPARequest)
	if c != nil && (starts && c.renewed(src, p) || c.reborn(src, p)) {
		t.forget(c)
		c = nil
	}
	if c == nil {
		if !starts && !p.Has(dissect.LayerMPAReply) && !p.Has(dissect.LayerFPDU) {
			return false
		}
		c = t.add(k, src, dst, p)
	}
	t.touch(c)
	c.packet(src, p, frame)
	return true
}

func (t *Tracker) add(k key, src, dst End, p *dissect.Packet) *conn {
	if len(t.table) >= t.opt.MaxConnections {
		t.forget(t.oldest)
	}
	c := &conn{t: t, key: k}
	c.ID, c.VLAN, c.FirstFrame, c.First = t.opt.NextID(), int(k.vlan), p.Number, p.Time
	c.A, c.B = src, dst // who speaks first connects; a reply says otherwise
	if p.Has(dissect.LayerMPAReply) {
		c.A, c.B = dst, src
	}
	for d := range c.streams {
		c.streams[d].init(c, Direction(d))
	}
	t.table[k] = c
	return c
}

// touch makes the connection the newest.
func (t *Tracker) touch(c *conn) {
	if t.newest == c {
		return
	}
	t.unlink(c)
	c.older, t.newest = t.newest, c
	if c.older != nil {
		c.older.newer = c
	} else {
		t.oldest = c
	}
}

func (t *Tracker) unlink(c *conn) {
	if c.newer != nil {
		c.newer.older = c.older
	}
	if c.older != nil {
		c.older.newer = c.newer
	}
	if t.newest == c {
		t.newest = c.older
	}
	if t.oldest == c {
		t.oldest = c.newer
	}
	c.newer, c.older = nil, nil
}

// forget ends a connection and lets it go.
func (t *Tracker) forget(c *conn) {
	c.finish()
	if t.opt.Sink.Connection != nil {
		r := c.record()
		t.opt.Sink.Connection(&r)
	}
	t.unlink(c)
	delete(t.table, c.key)
}

// Finish settles everything that waited for more packets. Call it once, when
// there are none.
func (t *Tracker) Finish() {
	for c := t.oldest; c != nil; c = c.newer {
		c.finish()
	}
}

// Connections copies the state of all connections, in the order in which they
// were first seen.
func (t *Tracker) Connections() []Connection {
	all := make([]Connection, 0, len(t.table))
	for _, c := range t.table {
		all = append(all, c.record())
	}
	slices.SortFunc(all, func(a, b Connection) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (e End) String() string { return netip.AddrPortFrom(e.Addr.Netip(), e.Port).String() }
