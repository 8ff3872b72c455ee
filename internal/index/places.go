package index

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/rocescope/rocescope/captures"
)

// places are the files in which packets' bytes lie.
type places struct {
	known   atomic.Pointer[[]place] // by interface
	spooled atomic.Int64

	mu    sync.Mutex
	files map[string]*os.File // opened by readers, by path
	spool *os.File
}

// place is where the packets of an interface are.
type place struct {
	face  captures.Interface
	spool *os.File // not in the file that the interface names
}

func newPlaces() *places { return &places{files: map[string]*os.File{}} }

func (p *places) list() []place {
	if l := p.known.Load(); l != nil {
		return *l
	}
	return nil
}

func (p *places) faces() (all []captures.Interface) {
	for _, pl := range p.list() {
		all = append(all, pl.face)
	}
	return all
}

// file is where an interface's packets can be read.
func (p *places) file(iface uint16) (*os.File, error) {
	l := p.list()
	if int(iface) >= len(l) {
		return nil, fmt.Errorf("index: interface %d was never described", iface)
	}
	if s := l[iface].spool; s != nil {
		return s, nil
	}
	path := l[iface].face.File
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.files[path]; f != nil {
		return f, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	p.files[path] = f
	return f, nil
}

func (p *places) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, f := range p.files {
		errs = append(errs, f.Close())
	}
	clear(p.files)
	if p.spool != nil {
		errs = append(errs, p.spool.Close())
		p.spool = nil
	}
	return errors.Join(errs...)
}

// temporary makes a file that is gone when it is closed, whatever happens.
func temporary(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "rocescope-*.spool")
	if err != nil {
		return nil, fmt.Errorf("index: no temporary file can be made for packets that cannot be read again (TMPDIR names another folder): %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("index: %w", err)
	}
	return f, nil
}

// keep has the spool closed with the rest.
func (p *places) keep(f *os.File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spool = f
}
