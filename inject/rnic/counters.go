package rnic

import "reflect"

// Drop is why a frame was thrown away without an answer.
type Drop uint8

// The reasons.
const (
	DropLink        Drop = iota // other MAC or VLAN
	DropNetwork                 // IP options, fragment, extension header, checksum
	DropLength                  // lengths that do not agree
	DropTVer                    // transport version
	DropQPN                     // no such queue pair
	DropService                 // another transport, or a state that takes no packets
	DropAddress                 // not from the peer, or not to us
	DropPKey                    // other partition
	DropQKey                    // wrong queue key
	DropICRC                    // invariant CRC
	DropRoCEv1                  // RoCE v1
	DropOther                   // no RoCE, and nobody who wants it
	DropState                   // an answer to a queue pair that requests nothing
	DropStaleAnswer             // an answer to what is answered already
	DropGhostAnswer             // an answer to what was never sent
	DropSyndrome                // a reserved syndrome
	DropGap                     // a request behind a gap or an RNR NAK
	DropDuplicate               // a duplicate that is not answered
	DropMessage                 // UC: of a message that lost a packet, or that is not allowed
	DropNoReceive               // UC, UD: no receive work request
	DropClosing                 // behind a request that was refused
	DropHandover                // of a queue pair of another queue, and too long to be handed over
	numDrops
)

var dropNames = [numDrops]string{
	"link", "network", "length", "tver", "qpn", "service", "address", "pkey", "qkey", "icrc", "roce_v1", "other", "state",
	"stale_answer", "ghost_answer", "syndrome", "gap", "duplicate", "message", "no_receive", "closing", "handover",
}

func (r Drop) String() string {
	if r < numDrops {
		return dropNames[r]
	}
	return "unknown"
}

// Drops lists the reasons.
func Drops() []Drop {
	all := make([]Drop, numDrops)
	for i := range all {
		all[i] = Drop(i)
	}
	return all
}

// Counters count since the device was opened. Where Linux and its drivers have a counter for it, it has that one's name.
type Counters struct {
	RxFrames, TxFrames uint64

	// Requester.
	TxRequests         uint64
	GoBack             uint64 // how often requests were sent again from some PSN
	PacketSeqErr       uint64 // sequence NAKs taken
	ImpliedNakSeqErr   uint64
	LocalAckTimeoutErr uint64
	RnrNakRetryErr     uint64 // RNR NAKs taken
	RetryExceeded      uint64
	RnrRetryExceeded   uint64

	// Responder.
	RxSendRequests   uint64 // messages, not packets
	RxWriteRequests  uint64
	RxReadRequests   uint64
	RxAtomicRequests uint64
	DuplicateRequest uint64
	OutOfSequence    uint64 // sequence NAKs sent
	OutOfBuffer      uint64 // RNR NAKs sent
	Refused          uint64 // other NAKs sent
	TxAnswers        uint64 // responses and acknowledgements

	NpEcnMarked  uint64
	NpCnpSent    uint64
	RpCnpHandled uint64

	RxManagement, RxOther uint64
	HandedOver            uint64 // frames that came in another queue than that of their queue pair's device
	Dropped               [numDrops]uint64
}

// Add adds what another device counted.
func (c *Counters) Add(o Counters) { combine(c, o, func(a, b uint64) uint64 { return a + b }) }

// Minus is what was counted since they were before.
func (c Counters) Minus(before Counters) Counters {
	combine(&c, before, func(a, b uint64) uint64 { return a - b })
	return c
}

func combine(c *Counters, o Counters, f func(a, b uint64) uint64) {
	each(reflect.ValueOf(c).Elem(), reflect.ValueOf(o), f)
}

// each sets each number to what f makes of it and the other's.
func each(v, o reflect.Value, f func(a, b uint64) uint64) {
	switch v.Kind() {
	case reflect.Uint64:
		v.SetUint(f(v.Uint(), o.Uint()))
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i), o.Field(i), f)
		}
	case reflect.Array:
		for i := range v.Len() {
			each(v.Index(i), o.Index(i), f)
		}
	}
}

func (c *Counters) drop(why Drop) { c.Dropped[why]++ }

// Counters returns the counters as they are.
func (d *Device) Counters() Counters {
	d.lock()
	defer d.unlock()
	return d.counters
}
