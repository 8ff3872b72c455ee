package rnic

// Status is how a work request ended, numbered and named as in libibverbs.
type Status uint8

// The statuses.
const (
	Success Status = iota
	LocLenErr
	LocQPOpErr
	LocEECOpErr
	LocProtErr
	WRFlushErr
	MWBindErr
	BadRespErr
	LocAccessErr
	RemInvReqErr
	RemAccessErr
	RemOpErr
	RetryExcErr
	RNRRetryExcErr
)

var statuses = [...]struct{ name, text string }{
	Success:        {"IBV_WC_SUCCESS", "success"},
	LocLenErr:      {"IBV_WC_LOC_LEN_ERR", "local length error"},
	LocQPOpErr:     {"IBV_WC_LOC_QP_OP_ERR", "local QP operation error"},
	LocEECOpErr:    {"IBV_WC_LOC_EEC_OP_ERR", "local EE context operation error"},
	LocProtErr:     {"IBV_WC_LOC_PROT_ERR", "local protection error"},
	WRFlushErr:     {"IBV_WC_WR_FLUSH_ERR", "work request flushed"},
	MWBindErr:      {"IBV_WC_MW_BIND_ERR", "memory window bind error"},
	BadRespErr:     {"IBV_WC_BAD_RESP_ERR", "bad response"},
	LocAccessErr:   {"IBV_WC_LOC_ACCESS_ERR", "local access error"},
	RemInvReqErr:   {"IBV_WC_REM_INV_REQ_ERR", "remote invalid request"},
	RemAccessErr:   {"IBV_WC_REM_ACCESS_ERR", "remote access error"},
	RemOpErr:       {"IBV_WC_REM_OP_ERR", "remote operation error"},
	RetryExcErr:    {"IBV_WC_RETRY_EXC_ERR", "transport retry counter exceeded"},
	RNRRetryExcErr: {"IBV_WC_RNR_RETRY_EXC_ERR", "RNR retry counter exceeded"},
}

// String returns the name that verbs give it.
func (s Status) String() string {
	if int(s) < len(statuses) {
		return statuses[s].name
	}
	return "unknown status"
}

// Text says it in words.
func (s Status) Text() string {
	if int(s) < len(statuses) {
		return statuses[s].text
	}
	return "unknown status"
}

// EventType is something that happened to an object, outside of any work request.
type EventType uint8

// The asynchronous events, as in libibverbs.
const (
	EventCQErr EventType = iota
	EventQPFatal
	EventQPReqErr
	EventQPAccessErr
	EventCommEst
	EventSQDrained
	EventSRQLimitReached
	EventQPLastWQEReached
	noEvent // a completion tells of it
)

var eventNames = [...]string{
	"IBV_EVENT_CQ_ERR", "IBV_EVENT_QP_FATAL", "IBV_EVENT_QP_REQ_ERR", "IBV_EVENT_QP_ACCESS_ERR", "IBV_EVENT_COMM_EST",
	"IBV_EVENT_SQ_DRAINED", "IBV_EVENT_SRQ_LIMIT_REACHED", "IBV_EVENT_QP_LAST_WQE_REACHED",
}

// String returns the name that verbs give it.
func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return "unknown event"
}

// Event is an asynchronous event. Of QP, CQ and SRQ, one is set.
type Event struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
}

// StateChange is what became of a queue pair, and when by the device's clock. One that is destroyed goes to RESET.
type StateChange struct {
	QP       *QP
	From, To State
	At       int64
}
