package clickhouse

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/rocescope/rocescope/internal/sink"
)

// Options say how a Writer writes.
type Options struct {
	Spill     string        // a folder for the spill files; "" = none: what a server that is away cannot take is lost
	SpillSize int64         // of all of them together, in bytes
	Wait      bool          // a busy server is waited for, as with files; else blocks spill, as with live captures
	Patience  time.Duration // how long Close waits for servers that are away
	Rows      int           // of a block; 0 = 32768
}

const (
	defaultRows = 32 << 10
	queued      = 2 // blocks between the writer and each shard
	dialTime    = 5 * time.Second
)

// Writer writes to the shards of a target.
type Writer struct {
	o       Options
	shards  []*shard
	open    map[place]*sink.Parcel
	numbers map[place]uint64  // blocks begun
	rows    map[place][]int32 // of the block at hand
	tables  map[*sink.Table]*columns
	version uint64 // of the last block
}

// columns are those that the place of a row hangs on.
type columns struct{ run, conn, day int }

// place is where a row belongs: one partition of one table on one shard.
type place struct {
	table *sink.Table
	shard int
	day   int64
	run   uint64
}

// Open connects to all shards and makes their tables. A shard that is away is an error, unless a spill file is there for it.
func Open(ctx context.Context, t *Target, o Options) (*Writer, error) {
	if o.Rows <= 0 {
		o.Rows = defaultRows
	}
	w := &Writer{o: o, open: map[place]*sink.Parcel{}, numbers: map[place]uint64{}, rows: map[place][]int32{}, tables: map[*sink.Table]*columns{}}
	for i, addr := range t.Shards {
		s, err := w.openShard(ctx, t, addr)
		if err != nil {
			for _, before := range w.shards[:i] {
				err = errors.Join(err, before.close(0))
			}
			return nil, err
		}
		w.shards = append(w.shards, s)
	}
	return w, nil
}

func (w *Writer) openShard(ctx context.Context, t *Target, addr string) (*shard, error) {
	co := &clickhouse.Options{
		Addr: []string{addr}, Auth: clickhouse.Auth{Username: t.User, Password: t.Password},
		Compression: &clickhouse.Compression{Method: clickhouse.CompressionLZ4}, DialTimeout: dialTime, ReadTimeout: requestTime,
		MaxOpenConns: 2, MaxIdleConns: 2,
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%q is no address of a server", addr)
	}
	// Names and certificates are read now: later, files may be out of reach.
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("find the ClickHouse server %s: %w", host, err)
	}
	co.DialContext = dialer(found, port, nil)
	if t.Secure {
		roots, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's certificates: %w", err)
		}
		co.TLS = &tls.Config{ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12}
		co.DialContext = dialer(found, port, co.TLS)
	}
	conn, err := clickhouse.Open(co)
	if err != nil {
		return nil, fmt.Errorf("ClickHouse at %s: %w", addr, err)
	}
	s := &shard{
		addr: addr, database: t.Database, conn: conn, queue: make(chan *sink.Parcel, queued), free: make(chan *sink.Parcel, queued+2),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	if w.o.Spill != "" {
		if s.spill, err = sink.OpenSpill(spillPath(w.o.Spill, t, addr), w.o.SpillSize/int64(len(t.Shards))); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	if err := s.prepare(ctx, t); err != nil {
		if s.spill == nil || refused(err) {
			if s.spill != nil {
				err = errors.Join(err, s.spill.Close())
			}
			return nil, errors.Join(fmt.Errorf("ClickHouse at %s: %w", addr, err), conn.Close())
		}
		s.away, s.reason = true, err
	}
	if s.spill != nil {
		if n, _ := s.spill.Waiting(); n > 0 {
			s.away, s.tried = true, true // what an earlier process left goes first
			s.reason = errors.Join(s.reason, errors.New("an earlier run left rows"))
		}
	}
	go s.run()
	return s, nil
}

// dialer connects to addresses that were looked up before.
func dialer(addresses []string, port string, secure *tls.Config) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: dialTime}
		var failed error
		for _, a := range addresses {
			c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(a, port))
			if err != nil {
				failed = err
				continue
			}
			if secure != nil {
				return tls.Client(c, secure), nil
			}
			return c, nil
		}
		return nil, failed
	}
}

// spillPath is a shard's spill file.
func spillPath(dir string, t *Target, addr string) string {
	return filepath.Join(dir, "rocescope-"+strings.NewReplacer(":", "_", "[", "", "]", "", "/", "_").Replace(addr+"_"+t.Database)+".spill")
}

// prepare makes the tables.
func (s *shard) prepare(ctx context.Context, t *Target) error {
	for _, statement := range DDL(t.Database, t.Cluster) {
		if err := s.conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Replaces implements sink.Writer: the tables keep a key's last row.
func (w *Writer) Replaces() bool { return true }

// Write implements sink.Writer. Behind the end of a block of the collector all rows are on their way: nothing waits for more.
func (w *Writer) Write(b *sink.Block) error {
	for p, rows := range w.sort(b) {
		for len(rows) > 0 {
			to := w.open[p]
			if to == nil {
				to = w.begin(p)
			}
			n := min(len(rows), w.o.Rows-to.Rows)
			to.AppendRows(b, rows[:n])
			rows = rows[n:]
			if to.Rows < w.o.Rows {
				continue
			}
			if err := w.finish(p); err != nil {
				return err
			}
		}
	}
	if w.o.Wait {
		return w.bound()
	}
	return w.finishAll()
}

// sort says which rows of a block belong where.
func (w *Writer) sort(b *sink.Block) map[place][]int32 {
	if len(w.rows) > maxOpen {
		clear(w.rows)
	}
	for p, rows := range w.rows {
		w.rows[p] = rows[:0]
	}
	c := w.columns(b.Table)
	for row := range b.Rows {
		run, conn := b.Cells[c.run].Bits[row], uint64(0)
		if c.conn >= 0 {
			conn = b.Cells[c.conn].Bits[row]
		}
		p := place{b.Table, shardOf(run, conn, len(w.shards)), b.Cells[c.day].Int(row) / int64(24*time.Hour), run}
		w.rows[p] = append(w.rows[p], int32(row))
	}
	return w.rows
}

func (w *Writer) columns(t *sink.Table) *columns {
	c := w.tables[t]
	if c == nil {
		c = &columns{t.Column("run"), t.Column("connection"), t.Column(t.Day)}
		w.tables[t] = c
	}
	return c
}

// shardOf says which shard has a connection. It must never change: rows would be found twice.
func shardOf(run, conn uint64, shards int) int {
	h := (run ^ conn*0x9E3779B97F4A7C15) * 0xFF51AFD7ED558CCD
	return int((h >> 33) % uint64(shards))
}

func (w *Writer) begin(p place) *sink.Parcel {
	var b *sink.Parcel
	select {
	case b = <-w.shards[p.shard].free:
	default:
	}
	if b == nil || b.Table != p.table {
		b = &sink.Parcel{Block: sink.NewBlock(p.table)}
	}
	b.ID = numberOf(p, w.numbers[p])
	w.version = max(w.version+1, uint64(time.Now().UnixNano()))
	b.Version = w.version
	w.numbers[p]++
	w.open[p] = b
	return b
}

// numberOf is the number of a block: the same whenever the same rows are sent.
func numberOf(p place, n uint64) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(p.table.Name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	for _, v := range []uint64{p.run, uint64(p.shard), uint64(p.day), n} {
		for range 8 {
			h = (h ^ v&0xFF) * 1099511628211
			v >>= 8
		}
	}
	return h
}

func (w *Writer) finish(p place) error {
	b := w.open[p]
	delete(w.open, p)
	return w.shards[p.shard].take(b, w.o.Wait)
}

func (w *Writer) finishAll() error {
	var all []error
	for p := range w.open {
		all = append(all, w.finish(p))
	}
	return errors.Join(all...)
}

// maxOpen bounds the blocks that are being filled: a capture over many days has many partitions.
const maxOpen = 64

func (w *Writer) bound() error {
	if len(w.open) <= maxOpen {
		return nil
	}
	return w.finishAll()
}

// Counts are what became of the rows.
type Counts struct {
	Inserted uint64 // the servers took
	Skipped  uint64 // the servers had already
	Waiting  uint64 // in spill files
	Lost     uint64
	Away     int // shards that are away
}

// Counts returns them. It may be called from any goroutine.
func (w *Writer) Counts() (c Counts) {
	for _, s := range w.shards {
		c.Inserted += s.inserted.Load()
		c.Skipped += s.skipped.Load()
		s.mu.Lock()
		c.Lost += s.lost
		if s.away {
			c.Away++
		}
		s.mu.Unlock()
		if s.spill != nil {
			_, rows := s.spill.Waiting()
			c.Waiting += rows
		}
	}
	return c
}

// Ports are the TCP ports that the writer connects to.
func (t *Target) Ports() []string {
	var ports []string
	for _, s := range t.Shards {
		if _, port, err := net.SplitHostPort(s); err == nil {
			ports = append(ports, port)
		}
	}
	return ports
}

// Close implements sink.Writer: it sends what is left, and says what could not be sent.
func (w *Writer) Close() error {
	err := w.finishAll()
	for _, s := range w.shards {
		err = errors.Join(err, s.close(w.o.Patience))
	}
	return err
}
