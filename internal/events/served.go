package events

import "encoding/json"

// Names of the types that a software RNIC tells of itself.
const (
	TypeSession    = "session"
	TypeRefused    = "refused"
	TypePlan       = "plan"
	TypeQueuePair  = "queue_pair"
	TypeQPState    = "qp_state"
	TypeError      = "error"
	TypeChecked    = "checked"
	TypeSessionEnd = "session_end"
)

// servedTypes are their rows of the table.
var servedTypes = []Type{
	{TypeSession, "Of serve: somebody wants to connect; session numbers him, way says how he asks.", []string{"session", "way", "peer"}},
	{TypeRefused, "Of serve: and may not, or his conversation did not end well.", []string{"session", "way", "peer", "error"}},
	{TypePlan, "Of serve: the traffic that he announces; bytes are those of a message.", []string{"session", "operation", "bytes"}},
	{TypeQueuePair, "Of serve: a queue pair is connected.", []string{
		"session", "transport", "qpn", "psn", "remote_qpn", "remote_psn", "peer", "mtu", "rkey", "va", "length",
	}},
	{TypeQPState, "Of serve: a queue pair went from one state to another.", []string{"qpn", "from", "state"}},
	{TypeError, "Of serve: a queue pair failed.", []string{"session", "qpn", "error"}},
	{TypeChecked, "Of serve: data was checked: how many messages, how many of them were wrong, or lost.", []string{"session", "messages", "wrong", "lost"}},
	{TypeSessionEnd, "Of serve: the end of a session, and of its queue pairs; without error, it was an orderly one.", []string{"session", "qps", "error"}},
}

// Served is a line of these types. What does not apply is left out.
type Served struct {
	Type      string  `json:"type"`
	TimeNS    int64   `json:"time_ns"`
	Session   int     `json:"session,omitempty"`
	Way       string  `json:"way,omitempty"`
	Transport string  `json:"transport,omitempty"`
	Operation string  `json:"operation,omitempty"`
	Bytes     *uint64 `json:"bytes,omitempty"`
	QPN       uint32  `json:"qpn,omitempty"`
	PSN       *uint32 `json:"psn,omitempty"`
	RemoteQPN uint32  `json:"remote_qpn,omitempty"`
	RemotePSN *uint32 `json:"remote_psn,omitempty"`
	Peer      string  `json:"peer,omitempty"`
	MTU       int     `json:"mtu,omitempty"`
	RKey      *uint32 `json:"rkey,omitempty"`
	VA        *uint64 `json:"va,omitempty"`
	Length    *uint64 `json:"length,omitempty"`
	From      string  `json:"from,omitempty"`
	State     string  `json:"state,omitempty"`
	Messages  *uint64 `json:"messages,omitempty"`
	Wrong     *uint64 `json:"wrong,omitempty"`
	Lost      *uint64 `json:"lost,omitempty"`
	QPs       *int    `json:"qps,omitempty"`
	Error     string  `json:"error,omitempty"`
}

// Served writes such a line.
func (w *Writer) Served(s *Served) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	w.buf = append(append(w.buf, text...), '\n')
	return w.flush()
}

// CloseServed writes the last line: frames that came and went, connections there were, and events that were too many to be written.
func (w *Writer) CloseServed(frames, connections, missed uint64) error {
	w.begin(typeEnd)
	w.number("frames", frames)
	w.number("connections", connections)
	w.number("missed", missed)
	w.end()
	return w.flush()
}
