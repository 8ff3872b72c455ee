package dissect

// PSN is a packet sequence number: 24 bits that wrap from 0xFFFFFF to 0
// (IBA 9.7.1). Values are compared as serial numbers: of two PSNs the one less
// than half the range (2^23) ahead is the later.
type PSN uint32

// MSN is a responder's 24-bit count of completed messages (IBA 9.7.7.1); it
// wraps and compares as PSN does.
type MSN uint32

const serialMask = 1<<24 - 1

// serialDiff is a-b as a signed 24-bit number, -2^23 … 2^23-1.
func serialDiff(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }

// Add returns the PSN n packets later (earlier where n is negative).
func (p PSN) Add(n int) PSN { return PSN(uint32(p)+uint32(n)) & serialMask }

// Sub returns the signed distance from q to p: positive where p is later.
func (p PSN) Sub(q PSN) int { return int(serialDiff(uint32(p), uint32(q))) }

// Before reports whether p is earlier than q.
func (p PSN) Before(q PSN) bool { return serialDiff(uint32(p), uint32(q)) < 0 }

// After reports whether p is later than q.
func (p PSN) After(q PSN) bool { return serialDiff(uint32(p), uint32(q)) > 0 }

// In reports whether p is one of the n PSNs that begin at start.
func (p PSN) In(start PSN, n int) bool {
	return int(uint32(p-start)&serialMask) < n
}

// Add returns the MSN n messages later (earlier where n is negative).
func (m MSN) Add(n int) MSN { return MSN(uint32(m)+uint32(n)) & serialMask }

// Sub returns the signed distance from q to m: positive where m is later.
func (m MSN) Sub(q MSN) int { return int(serialDiff(uint32(m), uint32(q))) }
