package connect

import (
	"container/heap"
	"math"

	"github.com/rocescope/rocescope/dissect"
)

// ConnID is this side's communication identifier of a connection.
type ConnID uint32

// CMState is what CM knows of a connection (IBA 12.9.7). It is not the state of the queue pair; see docs/connect.md.
type CMState uint8

// The states.
const (
	StateIdle        CMState = iota
	StateREQSent             // active: a REQ is out
	StateREPWait             // active: an MRA told to wait for the REP
	StateREPReceived         // active: the application is to confirm
	StateREQReceived         // passive: the application is to accept
	StateREPSent             // passive: a REP is out
	StateEstablished
	StateDREQSent
	StateTimeWait
	StateSIDRSent // active: a SIDR_REQ is out
	numCMStates
)

var cmStateNames = [numCMStates]string{
	"idle", "REQ sent", "REP wait", "REP received", "REQ received", "REP sent", "established", "DREQ sent", "time wait", "SIDR_REQ sent",
}

func (s CMState) String() string {
	if s < numCMStates {
		return cmStateNames[s]
	}
	return "unknown"
}

// never is the time of what is not due.
const never = math.MaxInt64

// cmConn is a connection.
type cmConn struct {
	id, remoteID  uint32
	state         CMState
	active        bool
	pending       bool // counted as such
	announced     bool // the end of it was told
	outer         dissect.Outer
	peer          dissect.Addr
	transaction   uint64
	remoteGUID    uint64
	service       dissect.ServiceID
	local, remote Parameters
	ends          endpoints

	message  [cmDataSize]byte // the last one, to be sent again
	attr     dissect.CMAttribute
	interval int64 // between one sending and the next
	left     uint8 // sendings
	deadline int64
	heapAt   int   // index in the heap
	expires  int64 // when a connection that is half open is given up, whatever comes
}

// peerKey names a connection by the other side's word for it: its communication identifier, or its QPN.
type peerKey struct {
	addr dissect.Addr
	n    uint32
}

// cmTable holds connections and their deadlines.
type cmTable struct {
	byID     map[ConnID]*cmConn
	byRemote map[peerKey]*cmConn // by remote communication identifier
	byQPN    map[peerKey]*cmConn // by remote QPN, while the connection lives
	pending  int
	heap     cmHeap
}

func (t *cmTable) init() {
	t.byID, t.byRemote, t.byQPN = map[ConnID]*cmConn{}, map[peerKey]*cmConn{}, map[peerKey]*cmConn{}
}

func (t *cmTable) add(c *cmConn) {
	c.heapAt = -1
	t.byID[ConnID(c.id)] = c
	if c.pending {
		t.pending++
	}
	if !c.active {
		t.knowRemote(c)
	}
}

// knowRemote indexes what the other side told.
func (t *cmTable) knowRemote(c *cmConn) {
	t.byRemote[peerKey{c.peer, c.remoteID}] = c
	t.byQPN[peerKey{c.peer, c.remote.QPN}] = c
}

// forgetQPN lets the other side use its QPN for another connection.
func (t *cmTable) forgetQPN(c *cmConn) {
	if k := (peerKey{c.peer, c.remote.QPN}); t.byQPN[k] == c {
		delete(t.byQPN, k)
	}
}

func (t *cmTable) settle(c *cmConn) {
	if c.pending {
		c.pending = false
		t.pending--
	}
}

func (t *cmTable) remove(c *cmConn) {
	t.settle(c)
	t.forgetQPN(c)
	if k := (peerKey{c.peer, c.remoteID}); t.byRemote[k] == c {
		delete(t.byRemote, k)
	}
	delete(t.byID, ConnID(c.id))
	t.at(c, never)
	c.state = StateIdle
}

// at sets the deadline of a connection.
func (t *cmTable) at(c *cmConn, deadline int64) {
	c.deadline = deadline
	switch {
	case deadline == never && c.heapAt >= 0:
		heap.Remove(&t.heap, c.heapAt)
	case deadline == never:
	case c.heapAt >= 0:
		heap.Fix(&t.heap, c.heapAt)
	default:
		heap.Push(&t.heap, c)
	}
}

func (t *cmTable) due(now int64) *cmConn {
	if len(t.heap) == 0 || t.heap[0].deadline > now {
		return nil
	}
	return t.heap[0]
}

func (t *cmTable) next() int64 {
	if len(t.heap) == 0 {
		return never
	}
	return t.heap[0].deadline
}

// cmHeap has the earliest deadline first.
type cmHeap []*cmConn

func (h cmHeap) Len() int           { return len(h) }
func (h cmHeap) Less(i, j int) bool { return h[i].deadline < h[j].deadline }
func (h cmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = i, j
}

// Push is for container/heap.
func (h *cmHeap) Push(x any) {
	c := x.(*cmConn)
	c.heapAt = len(*h)
	*h = append(*h, c)
}

// Pop is for container/heap.
func (h *cmHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	c.heapAt = -1
	return c
}
