package main

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/inject/load"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/crash"
	"github.com/rocescope/rocescope/internal/events"
)

// serveLog is the event log of a server. A goroutine of its own writes it: the host's thread waits for no disk.
type serveLog struct {
	log     *eventLog
	lines   chan events.Served
	missed  atomic.Uint64 // that found no room
	quit    chan struct{}
	written chan struct{}
}

// serveLogLines is how many events may wait to be written: those of 10,000 queue pairs that come and go at once.
const serveLogLines = 1 << 16

// newServeLog begins the log that --events names.
func newServeLog(path, iface string) (*serveLog, error) {
	log, err := createEventLog(path, []string{iface}, true)
	if err != nil {
		return nil, err
	}
	l := &serveLog{log: log, lines: make(chan events.Served, serveLogLines), quit: make(chan struct{}), written: make(chan struct{})}
	go func() {
		defer crash.Guard()
		defer close(l.written)
		for {
			select {
			case line := <-l.lines:
				l.put(&line)
			case <-l.quit:
				for len(l.lines) > 0 {
					line := <-l.lines
					l.put(&line)
				}
				return
			}
		}
	}()
	return l, nil
}

// put writes a line. A disk that is full ends the log, not the server: that is said in the end.
func (l *serveLog) put(s *events.Served) {
	if l.log.rest != nil {
		return
	}
	err := l.log.w.Served(s)
	if err == nil && len(l.lines) == 0 {
		err = l.log.buf.Flush()
	}
	l.log.rest = l.log.failed(err)
}

// write takes a line, on any goroutine.
func (l *serveLog) write(s events.Served) {
	select {
	case l.lines <- s:
	default:
		l.missed.Add(1)
	}
}

// state takes a queue pair's new state.
func (l *serveLog) state(c rnic.StateChange) {
	l.write(events.Served{Type: events.TypeQPState, TimeNS: c.At, QPN: c.QP.QPN(), From: c.From.String(), State: c.To.String()})
}

// happened takes what the responder tells.
func (l *serveLog) happened(e *load.Happening) {
	s := events.Served{Type: servedTypes[e.Kind], TimeNS: time.Now().UnixNano(), Session: e.Serving}
	if s.Type == "" {
		return
	}
	if e.Peer.IsValid() && (e.Kind == load.Called || e.Kind == load.Refused) {
		s.Peer, s.Way = e.Peer.String(), e.Way.String()
	}
	if e.Err != nil {
		s.Error = e.Err.Error()
	}
	c := e.Conn
	switch e.Kind {
	case load.Planned:
		size := uint64(e.Traffic.Size)
		s.Operation, s.Bytes = e.Traffic.Operation, &size
	case load.Connected:
		local, remote := &c.Local, &c.Remote
		psn, remotePSN := uint32(local.PSN), uint32(remote.PSN)
		s.Transport, s.QPN, s.PSN, s.RemoteQPN, s.RemotePSN, s.MTU = local.Transport.String(), local.QPN, &psn, remote.QPN, &remotePSN, remote.MTU
		s.Peer, s.RKey, s.VA, s.Length = remote.Address.String(), &local.Memory.RKey, &local.Memory.VA, &local.Memory.Length
	case load.Broken:
		if c != nil {
			s.QPN = c.Local.QPN
		}
	case load.Checked:
		r := &e.Report
		s.Messages, s.Wrong, s.Lost = &r.Messages, &r.Wrong, &r.Lost
	case load.Closed:
		s.QPs = &e.QPs
	}
	l.write(s)
}

// servedTypes are the types of events, by what happened; that both sides are ready is none.
var servedTypes = map[load.HappeningKind]string{
	load.Called: events.TypeSession, load.Refused: events.TypeRefused, load.Planned: events.TypePlan, load.Connected: events.TypeQueuePair,
	load.Broken: events.TypeError, load.Checked: events.TypeChecked, load.Closed: events.TypeSessionEnd,
}

// close ends the log, of a host that was closed: nothing happens any more. There may be none.
func (l *serveLog) close(frames, connections uint64) error {
	if l == nil {
		return nil
	}
	close(l.quit)
	<-l.written
	if l.log.rest != nil {
		return errors.Join(l.log.rest, l.log.file.Close())
	}
	return l.log.failed(errors.Join(l.log.w.CloseServed(frames, connections, l.missed.Load()), l.log.buf.Flush(), l.log.file.Close()))
}
