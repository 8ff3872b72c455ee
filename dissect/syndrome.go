package dissect

import "time"

// Syndrome is the first byte of an AETH (IBA 9.7.5.1.1): its kind in bits 6–5,
// a value in bits 4–0.
type Syndrome uint8

// SyndromeKind is the kind of an answer.
type SyndromeKind uint8

// The kinds.
const (
	KindACK      SyndromeKind = 0
	KindRNR      SyndromeKind = 1
	KindReserved SyndromeKind = 2
	KindNAK      SyndromeKind = 3
)

var kindNames = [...]string{"ACK", "RNR NAK", "reserved", "NAK"}

func (k SyndromeKind) String() string { return kindNames[k&3] }

// NAKCode is the reason of a NAK (IBA 9.7.5.2.8).
type NAKCode uint8

// The NAK codes. Others are reserved.
const (
	NAKSequence NAKCode = iota
	NAKInvalidRequest
	NAKRemoteAccess
	NAKRemoteOperational
	NAKInvalidRD
	NumNAKCodes
)

var nakNames = [...]string{"PSN sequence error", "invalid request", "remote access error", "remote operational error", "invalid RD request"}

func (c NAKCode) String() string {
	if int(c) < len(nakNames) {
		return nakNames[c]
	}
	return "reserved"
}

// Kind returns the syndrome's kind.
func (s Syndrome) Kind() SyndromeKind { return SyndromeKind(s >> 5 & 3) }

// Value returns the low five bits: credit code, RNR timer code or NAK code.
func (s Syndrome) Value() uint8 { return uint8(s & 0x1F) }

// NAK returns the NAK code; it is meaningful where Kind is KindNAK.
func (s Syndrome) NAK() NAKCode { return NAKCode(s.Value()) }

// String names the syndrome: "ACK", "RNR NAK", "NAK: remote access error".
func (s Syndrome) String() string {
	if s.Kind() == KindNAK {
		return "NAK: " + s.NAK().String()
	}
	return s.Kind().String()
}

// NoCreditInfo is the credit code that says nothing of receive buffers.
const NoCreditInfo = 0x1F

// creditCounts decodes the credit code of an ACK (IBA 9.7.7.2, table 46).
var creditCounts = [32]uint32{
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 0,
}

// Credits returns how many receive WQEs a credit code grants; ok is false for
// NoCreditInfo.
func Credits(code uint8) (n int, ok bool) {
	code &= 0x1F
	return int(creditCounts[code]), code != NoCreditInfo
}

// rnrTimers decodes the RNR timer code, in units of 10 µs (IBA 9.7.5.2.8,
// table 45). Code 0 is the longest wait.
var rnrTimers = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTimer returns the wait that an RNR timer code asks for.
func RNRTimer(code uint8) time.Duration {
	return time.Duration(rnrTimers[code&0x1F]) * 10 * time.Microsecond
}

// AckTimeout returns 4.096 µs × 2^n, the local ACK time-out of code n
// (IBA 9.7.6.1.3); 0, which means none, for n = 0.
func AckTimeout(n uint8) time.Duration {
	if n &= 0x1F; n == 0 {
		return 0
	}
	return time.Duration(4096) << n
}

// MTUBytes returns the path MTU in bytes of its code in CM and verbs, 1…5; 0
// for others.
func MTUBytes(code uint8) int {
	if code < 1 || code > 5 {
		return 0
	}
	return 128 << code
}

// ValidMTU reports whether n is one of the five path MTUs.
func ValidMTU(n int) bool { return n >= 256 && n <= 4096 && n&(n-1) == 0 }
