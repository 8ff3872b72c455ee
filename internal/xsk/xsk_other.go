//go:build !linux

package xsk

import (
	"runtime"
	"time"
)

// AF_XDP is Linux's. On other systems everything says so, so that programs which use it where it is there still build.

func unsupported(op string) error {
	return &Error{Op: op, Err: &UnsupportedError{Feature: "AF_XDP", Reason: "this is " + runtime.GOOS + ", and it is a part of Linux"}}
}

type handle struct{}

// NewUMEM is not supported on this system.
func NewUMEM(UMEMOptions) (*UMEM, error) { return nil, unsupported("make a UMEM") }

func unmap([]byte) error { return nil }

// Open is not supported on this system.
func Open(Options) (*Socket, error) { return nil, unsupported("open a socket") }

// Kick is not supported on this system.
func (s *Socket) Kick() (more bool, err error) { return false, unsupported("send") }

// WakeRX is not supported on this system.
func (s *Socket) WakeRX() error { return unsupported("wake the receiver") }

// Wait is not supported on this system.
func (s *Socket) Wait(time.Duration) (ready bool, err error) { return false, unsupported("wait") }

// WaitTX is not supported on this system.
func (s *Socket) WaitTX(time.Duration) error { return unsupported("wait") }

// Interrupt does nothing on this system.
func (s *Socket) Interrupt() {}

// Drain is not supported on this system.
func (s *Socket) Drain(time.Duration) (done bool, err error) { return false, unsupported("send") }

// Stats is not supported on this system.
func (s *Socket) Stats() (Stats, error) { return Stats{}, unsupported("read statistics") }

// FD is -1 on this system.
func (s *Socket) FD() int { return -1 }

// Close does nothing on this system.
func (s *Socket) Close() error { return nil }

// Program is the XDP program.
type Program struct{}

// LoadProgram is not supported on this system.
func LoadProgram(ProgramOptions) (*Program, error) { return nil, unsupported("load an XDP program") }

// Register is not supported on this system.
func (p *Program) Register(*Socket) error { return unsupported("register a socket") }

// Counters is not supported on this system.
func (p *Program) Counters() (Counters, error) { return Counters{}, unsupported("read counters") }

// Close does nothing on this system.
func (p *Program) Close() error { return nil }

// Attachment is a program bound to an interface.
type Attachment struct {
	Interface string
	Mode      AttachMode
	NotNative error
}

// Attach is not supported on this system.
func (p *Program) Attach(string, AttachMode) (*Attachment, error) {
	return nil, unsupported("attach an XDP program")
}

// Close does nothing on this system.
func (a *Attachment) Close() error { return nil }

// LiveFrames makes frames inside the kernel.
type LiveFrames struct{}

// OpenLiveFrames is not supported on this system.
func OpenLiveFrames(LiveOptions) (*LiveFrames, error) { return nil, unsupported("make live frames") }

// MaxLiveFrame is not supported on this system.
func MaxLiveFrame() (int, error) { return 0, unsupported("make live frames") }

// Prime is not supported on this system.
func (l *LiveFrames) Prime() error { return unsupported("make live frames") }

// Run is not supported on this system.
func (l *LiveFrames) Run(int) (sent int, err error) { return 0, unsupported("make live frames") }

// Stats is not supported on this system.
func (l *LiveFrames) Stats() (LiveStats, error) { return LiveStats{}, unsupported("make live frames") }

// PSN is not supported on this system.
func (l *LiveFrames) PSN(int) (uint32, error) { return 0, unsupported("make live frames") }

// Close does nothing on this system.
func (l *LiveFrames) Close() error { return nil }

// Probe is not supported on this system.
func Probe(name string) (Features, error) {
	return Features{Interface: name}, unsupported("probe " + name)
}

// HaveMultiBuffer is not supported on this system.
func HaveMultiBuffer() error { return unsupported("probe multi-buffer") }

// HaveNeedWakeup is not supported on this system.
func HaveNeedWakeup() error { return unsupported("probe need-wakeup") }

// HaveTxBudget is not supported on this system.
func HaveTxBudget() error { return unsupported("probe the transmit budget") }

// HaveTxMetadata is not supported on this system.
func HaveTxMetadata() error { return unsupported("probe transmit metadata") }

// HaveFrags is not supported on this system.
func HaveFrags() error { return unsupported("probe fragment-aware programs") }
