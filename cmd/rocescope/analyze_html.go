package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/privacy"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/report/html"
	"github.com/rocescope/rocescope/internal/version"
)

// pageFile is a report in the making. It is opened before the capture is read: where it cannot be written is said at once.
type pageFile struct {
	path string
	file *os.File
}

// createPage opens the file of a report. It overwrites a report, and nothing else.
func createPage(path string) (*pageFile, error) {
	return createOwn("--html", path, "report of rocescope", []byte(html.Generator))
}

// createOwn opens a file for an output that an option names. It overwrites what has the mark of such an output near its beginning, and
// nothing else.
func createOwn(option, path, kind string, mark []byte) (*pageFile, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	begin := make([]byte, 512)
	n, _ := io.ReadFull(file, begin)
	if n > 0 && !bytes.Contains(begin[:n], mark) {
		file.Close()
		return nil, errUsage("%s %s: that file is there already, and no %s; it is left alone: choose another name, or remove it", option, path, kind)
	}
	return &pageFile{path, file}, nil
}

// write replaces what the file holds.
func (p *pageFile) write(page func(io.Writer) error) error {
	err := p.file.Truncate(0)
	if err == nil {
		_, err = p.file.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = page(p.file)
	}
	if err = errors.Join(err, p.file.Close()); err != nil {
		return fmt.Errorf("write the report %s: %w", p.path, err)
	}
	return nil
}

// abandon closes the file where that was not done; one that holds nothing goes.
func (p *pageFile) abandon() {
	info, err := p.file.Stat()
	p.file.Close()
	if err == nil && info.Size() == 0 {
		os.Remove(p.path)
	}
}

// pageMaker writes the report of an analysis. What is in it besides the analysis comes from a second look at the packets. An
// input that passes only once is kept in a temporary file for that.
type pageMaker struct {
	in    *input
	page  *pageFile
	spool *spool // nil: the input can be read again
}

func newPageMaker(in *input, path string) (*pageMaker, error) {
	page, err := createPage(path)
	if err != nil {
		return nil, err
	}
	m := &pageMaker{in: in, page: page}
	if !in.twice() {
		if m.spool, err = newSpool(); err != nil {
			page.abandon()
			return nil, err
		}
	}
	return m, nil
}

func (m *pageMaker) close() {
	if m.spool != nil {
		m.spool.close()
	}
	if m.page != nil {
		m.page.abandon()
	}
}

// write looks at the packets once more, as o and got say, and writes the report of d.
func (m *pageMaker) write(ctx context.Context, a *app, o engine.Options, got *engine.Result, d *report.Document) error {
	src, err := m.open(ctx)
	if err != nil {
		return err
	}
	c := html.NewCollector(d, got.Snapshot)
	o.MaxFrames = got.Frames
	o.Filter, o.Outcomes, o.MayBlock = nil, false, false
	o.Tracker.Sink = flows.Sink{Message: c.Message}
	o.Sinks = []engine.Sink{engine.SinkFunc(func(b *engine.Batch) error {
		c.Packets(&b.Batch)
		return nil
	})}
	if got.Frames > 0 {
		p := engine.New(o)
		stop := a.startProgress(p.Progress)
		_, err = p.Run(ctx, src)
		stop()
		var source *engine.SourceError
		if err != nil && !errors.As(err, &source) { // the source's errors were told the first time
			return err
		}
	} else {
		src.Close()
	}
	page := &html.Analysis{Document: d, Snapshot: got.Snapshot, Collector: c, Version: version.Get().Version, Origin: origins(got.Interfaces, o.Privacy)}
	file := m.page
	m.page = nil
	if err := file.write(page.Write); err != nil {
		return err
	}
	if a.stdout.isTerminal {
		fmt.Fprintf(a.stderr, "report: %s\n", file.path)
	}
	return nil
}

func (m *pageMaker) open(ctx context.Context) (captures.Source, error) {
	if m.spool == nil {
		return m.in.open(ctx)
	}
	return m.spool.reopen()
}

func origins(list []captures.Interface, mask *privacy.Mask) []html.Origin {
	var out []html.Origin
	seen := map[html.Origin]bool{}
	for _, i := range list {
		o := html.Origin{Name: i.Name, Description: maskedText(mask, i.Description), Filter: maskedFilter(mask, i.Filter), Program: i.Application, System: i.OS, Clock: i.Resolution}
		if i.SnapLen > 0 && i.SnapLen < 65535 {
			o.Description += fmt.Sprintf(" (at most %d bytes of each packet)", i.SnapLen)
		}
		if !seen[o] {
			seen[o] = true
			out = append(out, o)
		}
	}
	return out
}

// spool is a sink that keeps the packets of an input in a temporary file.
type spool struct {
	dir    string
	file   *os.File
	writer *captures.Writer
	links  map[spoolLink]int
}

// spoolLink is what a frame's interface has to say to be decoded the same again.
type spoolLink struct {
	iface uint16
	link  int
}

func newSpool() (*spool, error) {
	dir, err := os.MkdirTemp("", "rocescope-html-")
	if err != nil {
		return nil, fmt.Errorf("--html: keep the capture for a second look: %w", err)
	}
	file, err := os.Create(filepath.Join(dir, "capture.pcapng"))
	if err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("--html: keep the capture for a second look: %w", err)
	}
	return &spool{dir: dir, file: file, writer: captures.NewWriter(file, captures.WriterOptions{}), links: map[spoolLink]int{}}, nil
}

// Batch implements engine.Sink.
func (s *spool) Batch(b *engine.Batch) error {
	for i := range b.Packets {
		p := &b.Packets[i]
		key := spoolLink{p.Iface, int(p.Link)}
		at, ok := s.links[key]
		if !ok {
			at = s.writer.AddInterface(captures.Interface{Link: p.Link})
			s.links[key] = at
		}
		f := captures.Frame{Time: p.Time, HasTime: true, Data: b.Data[i], WireLen: int(p.WireLen), Iface: at, Link: p.Link, Direction: captures.Direction(p.Direction)}
		if err := s.writer.Write(&f); err != nil {
			return fmt.Errorf("--html: keep the capture for a second look: %w", err)
		}
	}
	return nil
}

func (s *spool) reopen() (captures.Source, error) {
	if err := s.writer.Flush(); err != nil {
		return nil, fmt.Errorf("--html: keep the capture for a second look: %w", err)
	}
	return captures.Open(s.file.Name())
}

func (s *spool) close() {
	s.file.Close()
	os.RemoveAll(s.dir)
}
