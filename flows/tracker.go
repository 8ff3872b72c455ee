package flows

import "github.com/rocescope/rocescope/dissect"

// Batch is a run of packets in the order of the capture. Data[i] is the frame
// of Packets[i], borrowed for the call; Marks[i] is filled in.
type Batch struct {
	Packets []dissect.Packet
	Data    [][]byte
	Marks   []Mark
}

// Sink takes what a tracker has finished. What the pointers point at is
// borrowed for the call. A nil func is not called.
type Sink struct {
	Message    func(*Message)
	Finding    func(*Finding)    // each occurrence, as it is found
	Connection func(*Connection) // final records of connections that were evicted
}

// Options set a tracker's bounds and checks. The zero value is good.
type Options struct {
	Sink           Sink
	MaxConnections int // beyond it the longest idle is evicted; 0 = 4 Mi
}
