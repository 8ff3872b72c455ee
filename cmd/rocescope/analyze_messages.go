package main

import (
	"encoding/json"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/report"
)

// messageSink writes messages as they end. Those of a batch wait until its packets are judged by the filter.
type messageSink struct {
	a       *app
	chosen  *selection // nil without a filter
	pending []flows.Message
	list    *report.MessageList
	json    *json.Encoder
	trickle bool // the input is a pipe: what is here must not wait for what is not
}

func newMessageSink(a *app, in *input, o *analyzeOptions, chosen *selection) *messageSink {
	s := &messageSink{a: a, chosen: chosen, trickle: in.stream}
	if o.json {
		s.json = json.NewEncoder(a.stdout)
		s.json.SetEscapeHTML(false)
	} else {
		s.list = report.NewMessageList(a.stdout, 0, a.textOptions(o.top))
	}
	return s
}

// message is called by the tracker, before Batch.
func (s *messageSink) message(m *flows.Message) { s.pending = append(s.pending, *m) }

// Batch implements engine.Sink.
func (s *messageSink) Batch(b *engine.Batch) error {
	if s.list != nil && len(b.Packets) > 0 {
		s.list.SetBase(b.Packets[0].Base)
	}
	if err := s.write(); err != nil || !s.trickle {
		return err
	}
	if s.list != nil {
		s.list.Flush()
	}
	return s.a.stdout.Flush()
}

func (s *messageSink) write() error {
	for i := range s.pending {
		m := &s.pending[i]
		if s.chosen != nil && !s.chosen.takes(m) {
			continue
		}
		record := report.NewMessage(m)
		if s.json != nil {
			if err := s.json.Encode(&record); err != nil {
				return err
			}
			continue
		}
		s.list.Add(&record)
	}
	s.pending = s.pending[:0]
	return nil
}

// close writes the messages that were open when the capture ended, and what is left to say.
func (s *messageSink) close(d *report.Document) error {
	if err := s.write(); err != nil {
		return err
	}
	if s.list == nil {
		return nil
	}
	return s.list.Close(d)
}
