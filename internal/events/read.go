package events

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Event is one line, with the fields of all types; those that a type does not
// have are zero.
type Event struct {
	Type      string `json:"type"`
	Frame     uint64 `json:"frame"`
	TimeNS    int64  `json:"time_ns"`
	Conn      uint32 `json:"connection"`
	Direction string `json:"direction"`

	Schema string `json:"schema"` // log

	Index     uint32 `json:"index"` // message
	Operation string `json:"operation"`
	Status    string `json:"status"`
	FirstPSN  uint32 `json:"first_psn"`
	Bytes     uint64 `json:"bytes"`
	Resends   uint32 `json:"resends"`
	FirstNS   int64  `json:"first_seen_ns"`
	LatencyNS *int64 `json:"latency_ns"`

	ID       string `json:"id"` // finding, verdict
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Count    uint64 `json:"count"` // verdict

	QP       string `json:"qp"` // state
	State    string `json:"state"`
	Presumed *bool  `json:"presumed"`

	Transport string  `json:"transport"` // connection, peers
	A         string  `json:"a"`
	AQP       *uint32 `json:"a_qp"`
	B         string  `json:"b"`
	BQP       *uint32 `json:"b_qp"`
}

// ErrFormat: this is no event log, or one of a form that is not known.
var ErrFormat = errors.New("not an event log")

// IsLog reports whether what begins like this is an event log.
func IsLog(begin []byte) bool {
	return bytes.HasPrefix(begin, []byte(`{"type":"`+typeLog+`"`))
}

// maxLine is how long a line may be.
const maxLine = 1 << 20

// Read hands out a log's events, one after the other. The pointer is good for
// the call.
func Read(r io.Reader, each func(*Event)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n, ended := 0, false
	for lines.Scan() {
		n++
		if len(lines.Bytes()) == 0 {
			continue
		}
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("line %d: %w: %w", n, ErrFormat, err)
		}
		if n == 1 && (e.Type != typeLog || e.Schema != Schema) {
			return fmt.Errorf("line 1: %w of the form %s", ErrFormat, Schema)
		}
		ended = e.Type == typeEnd
		each(&e)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	if !ended {
		return fmt.Errorf("line %d: %w: the log has no last line of the type %q, so that it is cut off", n, io.ErrUnexpectedEOF, typeEnd)
	}
	return nil
}
