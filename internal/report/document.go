package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/rocescope/rocescope/flows"
)

// Schema is the name of the analysis document's form.
const Schema = "rocescope.analysis/1"

// Capture is what the caller knows of the input, and flows does not.
type Capture struct {
	Files         []string // as the user named them
	Packets       uint64
	Bytes         uint64   // as on the wire
	CapturedBytes uint64   // as in the files
	First, Last   int64    // nanoseconds since the Unix epoch; 0 = no packet had a time
	LinkTypes     []string // in the order of their first packets
	Matched       uint64   // packets that the filter selects; all of them without a filter
	Truncated     uint64   // packets of which the capture kept a part only (snap length)
	Malformed     uint64   // packets that contradict themselves
	Dropped       uint64   // packets that the capturing program says it lost
	Errors        []string // a sentence for each input that could not be read to its end
	Interrupted   bool     // the user ended the reading early
	Limited       bool     // the reading ended at the number of packets that the user asked for
	Series        bool     // the user wants to see how connections went over time
	ICRCOff       bool     // the user asked not to check ICRCs
	Filter        string   // the display filter that selected what is shown; "" = everything
}

// Document is the analysis document. Its JSON names are fixed: programs depend on them.
type Document struct {
	Schema       string            `json:"schema"`
	Capture      CaptureInfo       `json:"capture"`
	Filter       *string           `json:"filter"` // what selected everything below capture; null = nothing is left out
	Protocols    Protocols         `json:"protocols"`
	Opcodes      map[string]uint64 `json:"opcodes"` // packets by the opcode table's token
	ICRC         ICRC              `json:"icrc"`
	Connections  []Connection      `json:"connections"`
	Findings     []Finding         `json:"findings"`
	HostPairs    []HostPair        `json:"host_pairs"`
	HostsLeft    uint64            `json:"host_pairs_left"` // streams of host pairs beyond those that are kept
	Pauses       []PauseSender     `json:"pauses"`
	Shadow       *Shadow           `json:"shadow"` // null: not asked for
	IWARP        []IWARPConnection `json:"iwarp"`
	Mirrored     uint64            `json:"captured_twice"` // packets, inside a tunnel and outside it; each counted once
	Evicted      uint64            `json:"evicted"`        // connections left out because the table was full
	FindingsLeft uint64            `json:"findings_left"`  // findings left out because the list was full
	Counters     *Counters         `json:"counters"`       // null: no readings of a device's counters were given
}

// CaptureInfo describes the input.
type CaptureInfo struct {
	Files         []string `json:"files"`
	Packets       uint64   `json:"packets"`
	Matched       uint64   `json:"matched"` // of packets: those that the filter selects
	Bytes         uint64   `json:"bytes"`   // on the wire
	CapturedBytes uint64   `json:"captured_bytes"`
	First         *Moment  `json:"first"`
	Last          *Moment  `json:"last"`
	FirstNS       *int64   `json:"first_ns"`
	LastNS        *int64   `json:"last_ns"`
	LinkTypes     []string `json:"link_types"`
	Truncated     uint64   `json:"truncated"` // packets of which the capture kept a part only
	Malformed     uint64   `json:"malformed"` // packets that contradict themselves
	Dropped       uint64   `json:"dropped"`   // packets that the capturing program says it lost
	Errors        []string `json:"errors"`    // why an input was not read to its end
	Interrupted   bool     `json:"interrupted"`
	Limited       bool     `json:"limited"` // only so many packets were asked for
}

// Protocols are packets by protocol. cm and cnp packets are counted under their carrier too.
type Protocols struct {
	RoCEv2         uint64 `json:"rocev2"`
	RoCEv1         uint64 `json:"rocev1"`
	InfiniBand     uint64 `json:"infiniband"`
	IWARP          uint64 `json:"iwarp"`
	CM             uint64 `json:"cm"`
	SocketExchange uint64 `json:"socket_exchange"`
	PFC            uint64 `json:"pfc"`
	CNP            uint64 `json:"cnp"`
	Other          uint64 `json:"other"`
}

// ICRC are the verdicts on invariant CRCs. Unchecked packets are those of which the capture cut bytes off
// (not_captured of them) and those that were not asked about.
type ICRC struct {
	Valid       uint64 `json:"valid"`
	Invalid     uint64 `json:"invalid"`
	Unchecked   uint64 `json:"unchecked"`
	NotCaptured uint64 `json:"not_captured"`
	Off         bool   `json:"off"` // checking was switched off
}

// Connection is a pair of queue pairs; of UD, a source QP and one destination of it.
type Connection struct {
	ID            uint32           `json:"id"`
	Transport     string           `json:"transport"`
	A             QP               `json:"a"`
	B             QP               `json:"b"`
	EstablishedBy string           `json:"established_by"` // cm, socket, inferred, unpaired
	Evidence      string           `json:"pairing_evidence"`
	Candidates    []QPName         `json:"candidates"` // unpaired because of several: who the other side may be
	Tap           string           `json:"tap"`        // near a, near b, between, unknown
	Directions    string           `json:"directions"` // both, one
	ServiceID     *uint64          `json:"service_id"` // CM
	Established   *Moment          `json:"established"`
	First         *Moment          `json:"first"`
	Last          *Moment          `json:"last"`
	FirstNS       *int64           `json:"first_ns"`
	LastNS        *int64           `json:"last_ns"`
	FirstFrame    uint64           `json:"first_frame"`
	StateHistory  []StateStep      `json:"state_history"`
	AToB          Stream           `json:"a_to_b"`
	BToA          Stream           `json:"b_to_a"`
	Upper         *ConnectionUpper `json:"upper"`  // null: not known to carry an upper protocol
	Series        *Series          `json:"series"` // null: not asked for, or beyond the connections that have details
}

// Stream returns one of the two directions.
func (c *Connection) Stream(d flows.Direction) *Stream {
	if d == flows.AToB {
		return &c.AToB
	}
	return &c.BToA
}

// QPName names a queue pair.
type QPName struct {
	Address string `json:"address"`
	VLAN    *int   `json:"vlan"`
	QPN     uint32 `json:"qpn"`
}

// QP is one end of a connection.
type QP struct {
	Address    *string     `json:"address"`
	VLAN       *int        `json:"vlan"`
	QPN        *uint32     `json:"qpn"` // null: the wire does not tell
	State      string      `json:"state"`
	FirstPSN   *uint32     `json:"first_psn"` // of the first request that this QP sends
	PathMTU    *int        `json:"path_mtu"`
	Peers      *int        `json:"peers,omitempty"` // UD: destinations of this source QP
	Negotiated *Negotiated `json:"negotiated"`      // null: no handshake was captured
	InUse      InUse       `json:"in_use"`
}

// Negotiated is what a handshake agreed on for a queue pair.
type Negotiated struct {
	PathMTU            *int    `json:"path_mtu"`
	StartPSN           *uint32 `json:"start_psn"`
	RetryCount         *int    `json:"retry_count"`
	RNRRetryCount      *int    `json:"rnr_retry_count"`
	ResponderResources *int    `json:"responder_resources"`
	InitiatorDepth     *int    `json:"initiator_depth"`
	AckTimeoutCode     *int    `json:"ack_timeout_code"` // n of 4.096 µs × 2^n
	AckTimeoutNS       *int64  `json:"ack_timeout_ns"`
	SRQ                bool    `json:"srq"`
	RKey               *uint32 `json:"rkey"`
	VA                 *uint64 `json:"va"`
}

// InUse is what a queue pair's traffic shows of its queues.
type InUse struct {
	SQSent             uint64 `json:"sq_sent"`
	SQAcked            uint64 `json:"sq_acked"`
	RQConsumed         uint64 `json:"rq_consumed"`
	Outstanding        uint32 `json:"outstanding"`
	OutstandingPackets uint32 `json:"outstanding_packets"`
	ReadDepth          uint32 `json:"read_depth"`
	PathMTU            int    `json:"path_mtu"`     // that full packets show, 0 = none seen
	Credits            int    `json:"credits"`      // receive WQEs granted last
	CreditLimit        *int   `json:"credit_limit"` // MSN up to which they reach; null: never told
	Retries            int    `json:"retries"`      // most times that one message was begun again
	TimeoutMinNS       int64  `json:"timeout_min_ns"`
	TimeoutMaxNS       int64  `json:"timeout_max_ns"`
	TimeoutCodes       []int  `json:"timeout_codes"` // n of 4.096 µs × 2^n that fit the shortest
}

// StateStep is a step of one of the two queue pairs' state machines.
type StateStep struct {
	QP       string  `json:"qp"` // a, b
	State    string  `json:"state"`
	Frame    *uint64 `json:"frame"`
	Time     *Moment `json:"time"`
	Why      string  `json:"why"`
	Presumed bool    `json:"presumed"`
}

// Stream is one direction. Counts of requests are those of the requester that sends in this direction, counts of
// answers (acks, naks) those of the responder that sends in it.
type Stream struct {
	Packets              uint64                   `json:"packets"`
	Bytes                uint64                   `json:"bytes"`
	PayloadBytes         uint64                   `json:"payload_bytes"`
	Messages             map[string]MessageCounts `json:"messages"` // by operation; atomic is the sum of its kinds
	RetransmittedPackets uint64                   `json:"retransmitted_packets"`
	RetransmittedBytes   uint64                   `json:"retransmitted_bytes"`
	Retransmissions      Retransmissions          `json:"retransmissions"`
	Duplicates           uint64                   `json:"duplicates"`
	OutOfOrder           uint64                   `json:"out_of_order"`
	LostBeforeTap        uint64                   `json:"lost_before_tap"`
	LostBehindTap        uint64                   `json:"lost_behind_tap"`
	CaptureLost          uint64                   `json:"capture_lost"`
	GhostAcks            uint64                   `json:"ghost_acks"`
	Reordered            uint64                   `json:"reordered"`
	NetworkDuplicates    uint64                   `json:"network_duplicates"`
	Ambiguous            uint64                   `json:"ambiguous"`
	Acks                 uint64                   `json:"acks"`
	NAKs                 NAKs                     `json:"naks"`
	ReservedSyndromes    uint64                   `json:"reserved_syndromes"`
	RNRNAKs              uint64                   `json:"rnr_naks"`
	RNRWaitNS            int64                    `json:"rnr_wait_ns"`
	ECNCE                uint64                   `json:"ecn_ce"`
	CNPs                 uint64                   `json:"cnps"`
	BadICRC              uint64                   `json:"bad_icrc"`
	GoodputBPS           float64                  `json:"goodput_bps"` // payload bits per second; 0 where there is too little to tell
	Latency              Latency                  `json:"latency_ns"`
	RTT                  RTT                      `json:"rtt_ns"`
	DSCP                 []int                    `json:"dscp"`
	Priorities           []int                    `json:"priorities"`          // 802.1p, of tagged packets
	PausedNS             *int64                   `json:"paused_ns,omitempty"` // its priority or the whole link, by any station; only where pause frames were seen and the priority is known
	UDPSourcePorts       int                      `json:"udp_source_ports"`    // how many
	UDPSourcePort        *uint16                  `json:"udp_source_port"`     // the first
	MigReq               bool                     `json:"migreq"`              // of the first packet
	CNPDSCP              []int                    `json:"cnp_dscp"`
	CNPIntervalNS        *int64                   `json:"cnp_interval_ns"`   // shortest between two CNPs; null: fewer than two
	Reaction             *Reaction                `json:"cnp_reaction"`      // of the sender in this direction; null: not measured
	Time                 *TimeBudget              `json:"time_ns"`           // of the requester; null: beyond the connections that have details
	Memory               *MemoryMap               `json:"memory"`            // of the responder, as the requests name it; null as above, or none
	Histogram            []Bucket                 `json:"latency_histogram"` // null: --series was not given
	First                *Moment                  `json:"first"`
	Last                 *Moment                  `json:"last"`
	FirstNS              *int64                   `json:"first_ns"`
	LastNS               *int64                   `json:"last_ns"`
}

// MessageCounts are the messages of one operation.
type MessageCounts struct {
	Count          uint64 `json:"count"`
	Bytes          uint64 `json:"bytes"`
	Completed      uint64 `json:"completed"`
	Failed         uint64 `json:"failed"`
	WithImmediate  uint64 `json:"with_immediate"`
	WithInvalidate uint64 `json:"with_invalidate"`
}

func (m MessageCounts) plus(o MessageCounts) MessageCounts {
	return MessageCounts{
		Count: m.Count + o.Count, Bytes: m.Bytes + o.Bytes, Completed: m.Completed + o.Completed, Failed: m.Failed + o.Failed,
		WithImmediate: m.WithImmediate + o.WithImmediate, WithInvalidate: m.WithInvalidate + o.WithInvalidate,
	}
}

// Retransmissions are runs of packets sent again, by what made their sender do so.
type Retransmissions struct {
	NAK      uint64 `json:"nak"`
	RNR      uint64 `json:"rnr"`
	Timeout  uint64 `json:"timeout"`
	Spurious uint64 `json:"spurious"`
}

// NAKs are negative acknowledgements by code.
type NAKs struct {
	PSNSequenceError       uint64 `json:"psn_sequence_error"`
	InvalidRequest         uint64 `json:"invalid_request"`
	RemoteAccessError      uint64 `json:"remote_access_error"`
	RemoteOperationalError uint64 `json:"remote_operational_error"`
	InvalidRDRequest       uint64 `json:"invalid_rd_request"`
}

func (n NAKs) total() uint64 {
	return n.PSNSequenceError + n.InvalidRequest + n.RemoteAccessError + n.RemoteOperationalError + n.InvalidRDRequest
}

// Latency is from the first packet of a message seen to its covering ACK or last response.
type Latency struct {
	Count     uint64 `json:"count"`
	Min       *int64 `json:"min"`
	P50       *int64 `json:"p50"`
	P99       *int64 `json:"p99"`
	Max       *int64 `json:"max"`
	Coalesced uint64 `json:"coalesced"` // of count: upper bounds, because the ACK covered later messages too
}

// Finding is something that an engineer should know.
type Finding struct {
	ID          string  `json:"id"`
	Severity    string  `json:"severity"`
	Title       string  `json:"title"`
	Connection  *uint32 `json:"connection"` // null: the capture as a whole
	Stream      *string `json:"stream"`     // a_to_b, b_to_a
	Frame       *uint64 `json:"frame"`
	Time        *Moment `json:"time"`
	TimeNS      *int64  `json:"time_ns"`
	Summary     string  `json:"summary"`
	Explanation string  `json:"explanation"`
	Rule        string  `json:"rule"`
	Try         string  `json:"try"`
	Count       uint64  `json:"count"`
}

// Moment is nanoseconds since the Unix epoch, written as RFC 3339 text in UTC with all nine digits.
type Moment int64

const momentLayout = "2006-01-02T15:04:05.000000000Z"

// MarshalText writes the moment.
func (m Moment) MarshalText() ([]byte, error) {
	return time.Unix(0, int64(m)).UTC().AppendFormat(nil, momentLayout), nil
}

// UnmarshalText reads what MarshalText writes.
func (m *Moment) UnmarshalText(text []byte) error {
	t, err := time.Parse(momentLayout, string(text))
	*m = Moment(t.UnixNano())
	return err
}

// Encode writes the document as JSON, the same bytes for the same document.
func (d *Document) Encode(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}
