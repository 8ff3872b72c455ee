package captures

import "github.com/rocescope/rocescope/dissect"

// Frame is one captured frame.
type Frame struct {
	// Time is nanoseconds since the Unix epoch, saturated to the range of
	// int64 (years 1678 to 2262). It is 0 where HasTime is false.
	Time int64
	// Data holds the captured bytes. It is borrowed: it is valid until the next
	// ReadBatch (see Lender) or Close on the frame's Source, and must not be written to.
	// Where the source is memory-mapped, touch it inside Guard.
	Data []byte
	// WireLen is the frame's length on the wire as the capture recorded it. It
	// is what the file says: a strange file may hold less than len(Data).
	WireLen int
	// Offset is where Data begins in the file that Interfaces[Iface].File names, for
	// whoever wants to read it again; 0 where it lies in no such file as it is:
	// compressed and piped input, live captures.
	Offset int64
	// Iface is the index into Source.Interfaces of where it was captured.
	Iface int
	// Link names the outermost header of Data.
	Link dissect.LinkType
	// HasTime says whether the capture recorded a time for this frame. pcapng
	// Simple Packet Blocks have none, nor have interfaces of absurd resolution.
	HasTime bool
	// Direction is In or Out where the capture tells (epb_flags in pcapng).
	Direction Direction
}

// Interface describes where frames were captured, as far as the file tells.
// Strings are empty where the file says nothing.
type Interface struct {
	File        string           // file that described it, as given to Open
	Name        string           // if_name, for instance "eth0"
	Description string           // if_description
	Filter      string           // if_filter: the capture filter, as text
	Hardware    string           // if_hardware, else the section's shb_hardware
	OS          string           // if_os, else the section's shb_os
	Application string           // shb_userappl: the program that captured
	Link        dissect.LinkType // outermost header of its frames
	SnapLen     int              // bytes kept of each frame; 0 means no limit
	FCSLen      int              // bytes of frame check sequence in Data; -1 where not recorded
	Speed       uint64           // bits per second; 0 where not recorded

	Resolution     string // of time stamps, for instance "10^-9 s"
	UnitsPerSecond uint64 // the same as a number; 0 where the resolution is absurd and times are not given
	TimeOffset     int64  // seconds that were added to every time stamp (if_tsoffset)

	// Stats is what the capturing program last reported of this interface.
	Stats InterfaceStats
}

// InterfaceStats are the counters of a pcapng Interface Statistics Block, the
// last one read so far. A count is -1 where the file has none.
type InterfaceStats struct {
	Received       int64 // isb_ifrecv: frames received since the capture began
	Dropped        int64 // isb_ifdrop: frames dropped by the interface for want of resources
	FilterAccepted int64 // isb_filteraccept: frames that passed the capture filter
	OSDropped      int64 // isb_osdrop: frames dropped by the operating system
	Delivered      int64 // isb_usrdeliv: frames delivered to the capturing program
	// PacketDropped is the sum of the drop counts that single packets carry
	// (epb_dropcount, and the drops field of obsolete Packet Blocks): frames
	// lost between a packet and the one before. 0 where there are none.
	PacketDropped int64
}

// noStats is what an interface starts with: nothing is known.
var noStats = InterfaceStats{Received: -1, Dropped: -1, FilterAccepted: -1, OSDropped: -1, Delivered: -1}

// Source delivers frames in the order in which they were captured or written.
// Its methods are for one goroutine at a time, except Progress (see Progresser).
type Source interface {
	// ReadBatch fills dst from its start and returns how many frames it wrote.
	// It may return fewer than len(dst), and returns at least one unless err is
	// set: frames and an error never come together. io.EOF is a clean end. A
	// *FileError says what is wrong with a file, ErrTruncated where it is cut
	// off; all frames before the damage have been returned by then.
	// Errors repeat, except a *FileError with Resumable set: call again to go
	// on behind the damage. An empty dst gets 0, nil.
	//
	// The frames of one call stay valid together until the next; see Lender.
	ReadBatch(dst []Frame) (n int, err error)

	// Interfaces returns what is known of the interfaces so far. A pcap file
	// has one from the start; pcapng files add theirs as they are read, always
	// before the first frame that refers to it. The slice belongs to the Source:
	// statistics in it are updated by ReadBatch.
	Interfaces() []Interface

	// Close releases the source, and with it the Data of all its frames.
	Close() error
}

// Lender is implemented by the sources that Open and OpenFiles return: their
// frames can be had for longer than to the next ReadBatch, so that several
// goroutines can be at work on them.
type Lender interface {
	// Lend makes the frames of a call of ReadBatch stay valid until the n-th call
	// behind it, or Close. It is called before the first one; without it, n is 1.
	Lend(n int)
}

// Prompter is implemented by sources that can wait: live ones.
type Prompter interface {
	// Prompt reports whether ReadBatch would return frames at once.
	Prompt() bool
}

// Progresser is implemented by the sources that Open and OpenFiles return.
type Progresser interface {
	// Progress returns how many bytes of the input are behind us and how many
	// there are; compressed bytes where it is compressed. total is 0 where it
	// is not known. It may be called from any goroutine.
	Progress() (done, total int64)
}
