package xsk

import "fmt"

// LiveOptions describe what a [LiveFrames] sends: for each queue pair the same message again and again, with PSNs that count
// up and addresses that move.
//
// The kernel fills a few dozen pages with one frame each, and gives the same pages to the program over and over. So the
// program writes into each frame what is not the same in all of them, and nothing else: it is told by complete templates,
// and finds out by itself where they differ.
type LiveOptions struct {
	Interface string
	QPs       []LiveQP
	// Kinds says where the fields are in the frames of a message: one kind if a message is one frame, two if it is two
	// (first and last), else three (first, middle, last).
	Kinds []LiveKind
	// Segments is how many frames a message has; default 1.
	Segments int
	// PSNStep is by how much the PSN grows from one message's last frame to the next message; default 1. A READ request takes
	// as many as there will be responses.
	PSNStep uint32
	// AckEvery asks for an acknowledgement of each queue pair's every so manieth message, in its last frame; 0 leaves the
	// bit as it is in the templates.
	AckEvery uint32
	// RandomVA takes a random one of the places within VASpan for each message, instead of the next one (see RandomPlace).
	RandomVA bool
	// Interleave goes on to the next queue pair after each frame, instead of after each message.
	Interleave bool
	// Batch is how many frames the kernel makes before it hands them over, 64 by default and 256 at most.
	Batch int
}

// LiveKind is the layout of a kind of frame, in bytes from the frame's beginning. A frame ends with its ICRC.
type LiveKind struct {
	PSN     int // of the word that has AckReq in its first bit and the PSN in its last three bytes
	VA      int // of the virtual address; 0 if there is none
	Number  int // of a word that has the number of the message, as immediate data; 0 if there is none
	Payload int // where the headers end
}

// LiveQP is a queue pair that frames are sent to.
type LiveQP struct {
	// Frames are its templates, one for each of LiveOptions.Kinds, with a right ICRC. All lengths of a kind are the same.
	Frames [][]byte
	PSN    uint32 // of the first frame
	// VA is the first message's address. The next ones are VAStep further each, as far as whole steps fit into VASpan; then it
	// begins again. If addresses are random, VASpan is how many steps there are to choose from.
	VA, VAStep, VASpan uint64
	Seed               uint64 // of the random addresses
}

// What the program makes random places with: the finalizer of SplitMix64 over a sequence that the seed begins.
const (
	randomStride   = 0xD1342543DE82EF95
	randomSalt     = 2
	splitMixAdd    = 0x9E3779B97F4A7C15
	splitMixFirst  = 0xBF58476D1CE4E5B9
	splitMixSecond = 0x94D049BB133111EB
)

// LiveStats is what became of the frames.
type LiveStats struct {
	Sent uint64 // handed to the interface
	// Gone were made when the interface did not exist any more.
	Gone uint64
}

// Limits of what one program does.
const (
	MaxLiveBatch = 256  // the kernel's
	MaxLiveQPs   = 4096 // queue pairs
	maxPatches   = 96   // stores that it takes to turn any frame into any other of a kind
)

func (o *LiveOptions) fail(kind error, hint, format string, args ...any) error {
	return &Error{Op: "make live frames for", Where: o.Interface, Kind: kind, Err: fmt.Errorf(format, args...), Hint: hint}
}

// complete sets defaults and refuses what makes no sense.
func (o *LiveOptions) complete() error {
	o.Segments = max(o.Segments, 1)
	if o.PSNStep == 0 {
		o.PSNStep = 1
	}
	if o.Batch == 0 {
		o.Batch = 64
	}
	switch {
	case len(o.Kinds) != min(o.Segments, 3):
		return o.fail(nil, "", "%d kinds of frames for messages of %d", len(o.Kinds), o.Segments)
	case len(o.QPs) == 0 || len(o.QPs) > MaxLiveQPs:
		return o.fail(nil, "", "%d queue pairs, and 1 to %d are possible", len(o.QPs), MaxLiveQPs)
	case o.Batch < 1 || o.Batch > MaxLiveBatch:
		return o.fail(nil, "", "a batch of %d frames, and 1 to %d are possible", o.Batch, MaxLiveBatch)
	case o.PSNStep > 1<<23:
		return o.fail(nil, "", "a step of %d PSNs", o.PSNStep)
	}
	for i := range o.QPs {
		q := &o.QPs[i]
		if len(q.Frames) != len(o.Kinds) {
			return o.fail(nil, "", "queue pair %d has %d templates for %d kinds of frames", i, len(q.Frames), len(o.Kinds))
		}
		switch {
		case o.RandomVA && q.VASpan == 0:
			return o.fail(nil, "", "queue pair %d: no place for random addresses", i)
		case !o.RandomVA && q.VASpan < q.VAStep:
			return o.fail(nil, "", "queue pair %d: a region of %d bytes for addresses %d apart", i, q.VASpan, q.VAStep)
		}
		for k, f := range q.Frames {
			at := o.Kinds[k]
			n := len(f) - icrcSize
			switch {
			case len(f) != len(o.QPs[0].Frames[k]):
				return o.fail(nil, "", "queue pairs 0 and %d have templates of %d and %d bytes", i, len(o.QPs[0].Frames[k]), len(f))
			case at.PSN < 14 || at.PSN+4 > n || at.Payload < at.PSN+4 || at.Payload > n:
				return o.fail(nil, "", "a template of %d bytes with its PSN at %d and its payload at %d", len(f), at.PSN, at.Payload)
			case at.VA != 0 && (at.VA < at.PSN+4 || at.VA+8 > at.Payload):
				return o.fail(nil, "", "a template of %d bytes with its address at %d", len(f), at.VA)
			case at.Number != 0 && (at.Number < at.PSN+4 || at.Number+4 > at.Payload):
				return o.fail(nil, "", "a template of %d bytes with the message's number at %d", len(f), at.Number)
			}
		}
	}
	return nil
}
