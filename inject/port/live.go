package port

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/xsk"
)

// ViaLive is the name of the kernel's live-frame generator.
const ViaLive = "live"

// Messages is traffic that a port can make by itself: for each queue pair the same message again and again.
type Messages struct {
	QPs []MessageQP
	// Segments is how many frames a message has; 0 is 1.
	Segments int
	// PSNStep is how many PSNs a message's last frame takes; 0 is 1, and a READ request takes one for each response.
	PSNStep int
	// AckEvery sets AckReq in the last frame of each queue pair's every so manieth message; 0 leaves it as in the templates.
	AckEvery int
	// RandomVA takes a random place for each message, instead of the next one.
	RandomVA bool
	// Interleave takes turns frame by frame instead of message by message.
	Interleave bool
}

// MessageQP is what one queue pair is sent.
type MessageQP struct {
	// Frames are the message's frames, complete with ICRC: the only one, first and last, or first, any middle one, and last.
	// PSNs and addresses in them do not matter, and immediate data becomes the number of the message; payload and the rest of
	// the headers are sent as they are.
	Frames [][]byte
	PSN    dissect.PSN // of the first frame
	// Messages go to VA, VA+VAStep and so on, as far as whole steps fit into VASpan bytes, and then from VA on again. If they go
	// to random places, there are VASpan of these.
	VA, VAStep, VASpan uint64
	Seed               uint64 // of random addresses
}

// Generator is a port that makes its frames by itself. It has no slots to write frames into.
type Generator interface {
	Port
	// Run sends the next n frames and returns how many were sent.
	Run(n int) (sent int, err error)
}

// Live sends by the kernel's live-frame generator: a Generator, for the frames are made within the kernel, where nobody can put
// one of his own between them. It receives nothing.
//
// One goroutine runs it; Stats may be called from anywhere.
type Live struct {
	info  Info
	link  *link
	live  *xsk.LiveFrames
	bytes float64 // of a frame, on average
	sent  atomic.Uint64
}

// OpenLive prepares to send messages through an interface. It uses Options.Interface and Batch, and fails with ErrNotSupported
// where the kernel, the driver or the nature of the messages stands in its way, and says what to do instead. Afterwards it
// needs no privileges.
func OpenLive(o Options, m Messages) (*Live, error) {
	l, err := findLink(o.Interface)
	if err != nil {
		return nil, err
	}
	options := xsk.LiveOptions{
		Interface: o.Interface, Segments: m.Segments, PSNStep: uint32(m.PSNStep), AckEvery: uint32(m.AckEvery),
		RandomVA: m.RandomVA, Interleave: m.Interleave, Batch: min(o.Batch, xsk.MaxLiveBatch),
	}
	p := &Live{link: l, info: Info{Via: ViaLive, Interface: o.Interface, MTU: l.mtu, Detail: "frames made by the kernel's own generator"}}
	for i := range m.QPs {
		q := &m.QPs[i]
		options.QPs = append(options.QPs, xsk.LiveQP{
			Frames: q.Frames, PSN: uint32(q.PSN), VA: q.VA, VAStep: q.VAStep, VASpan: q.VASpan, Seed: q.Seed,
		})
		for k, f := range q.Frames {
			kind, err := liveKind(f)
			switch {
			case err != nil:
			case i == 0:
				options.Kinds = append(options.Kinds, kind)
				p.info.MaxFrame = max(p.info.MaxFrame, len(f))
			case k < len(options.Kinds) && kind != options.Kinds[k]:
				err = fmt.Errorf("%w: the queue pairs' frames differ in their headers' lengths", ErrNotSupported)
			}
			if err != nil {
				l.close()
				return nil, failed(o.Interface, fmt.Sprintf("make live frames from template %d of queue pair %d", k, i), err, "")
			}
		}
	}
	if p.live, err = xsk.OpenLiveFrames(options); err != nil {
		l.close()
		return nil, fmt.Errorf("port: %w", err)
	}
	p.bytes = averageLength(m)
	return p, nil
}

// averageLength is that of the frames of a message.
func averageLength(m Messages) float64 {
	f := m.QPs[0].Frames
	n := max(m.Segments, 1)
	sum := len(f[0])
	if n > 1 {
		sum += len(f[len(f)-1])
	}
	if n > 2 {
		sum += (n - 2) * len(f[1])
	}
	return float64(sum) / float64(n)
}

// liveKind finds what changes in a template, which must be right in everything else: nothing corrects it later.
func liveKind(frame []byte) (k xsk.LiveKind, err error) {
	var d dissect.Decoder
	var p dissect.Packet
	var icrc dissect.ICRC
	d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
	switch status := icrc.Verify(&p, frame); {
	case !p.Has(dissect.LayerBTH) || p.Malformed():
		return k, fmt.Errorf("%w: it is no whole RoCE packet", ErrNotSupported)
	case status != dissect.ICRCValid:
		return k, fmt.Errorf("%w: its ICRC is %v", ErrNotSupported, status)
	case p.Offset(dissect.LayerICRC)+dissect.ICRCSize != len(frame):
		return k, fmt.Errorf("%w: it does not end with its ICRC", ErrNotSupported)
	case p.Has(dissect.LayerUDP) && p.UDP(frame).Checksum() != 0:
		return k, fmt.Errorf("%w: it has a UDP checksum, which would have to change with the rest", ErrNotSupported)
	}
	bth := p.Offset(dissect.LayerBTH)
	k.PSN, k.Payload = bth+8, bth+p.Op().Len
	for _, l := range [...]dissect.Layer{dissect.LayerRETH, dissect.LayerAtomicETH} { // both begin with the address
		if p.Has(l) {
			k.VA = p.Offset(l)
		}
	}
	if p.Has(dissect.LayerImmDt) {
		k.Number = p.Offset(dissect.LayerImmDt)
	}
	return k, nil
}

// Info says what it is. MaxFrame is the longest of its frames.
func (p *Live) Info() Info { return p.info }

// Run implements Generator. Thousands of frames at a time are best: the kernel makes ready for each call.
func (p *Live) Run(n int) (sent int, err error) {
	sent, err = p.live.Run(n)
	p.sent.Add(uint64(sent))
	if err != nil {
		return sent, fmt.Errorf("port: %w", err)
	}
	return sent, nil
}

// PSN is the PSN that a queue pair's next frame will have.
func (p *Live) PSN(qp int) (dissect.PSN, error) {
	psn, err := p.live.PSN(qp)
	if err != nil {
		return 0, fmt.Errorf("port: %w", err)
	}
	return dissect.PSN(psn), nil
}

// Stats counts what was sent. What the interface then dropped, on a virtual link because the far end had no room for it, only
// its own counter tells.
func (p *Live) Stats() Stats {
	sent := p.sent.Load()
	return Stats{Sent: sent, SentBytes: uint64(float64(sent) * p.bytes), LinkDropped: p.link.txDropped()}
}

// Take finds no slots: there are none.
func (p *Live) Take([]uint32) int { return 0 }

// Room is of no slot.
func (p *Live) Room(uint32) []byte { return nil }

// Send refuses all frames.
func (p *Live) Send([]Out) error {
	return failed(p.info.Interface, "send a frame", fmt.Errorf("%w: live frames are made by the kernel", ErrNotSupported), "send it by another port")
}

// Flush has nothing to do: when Run returns, the frames have left.
func (p *Live) Flush() error { return nil }

// Receive receives nothing.
func (p *Live) Receive([]In) (int, error) { return 0, nil }

// Wait waits for nothing.
func (p *Live) Wait(timeout time.Duration) error {
	time.Sleep(timeout)
	return nil
}

// Close ends it.
func (p *Live) Close() error {
	p.link.close()
	return p.live.Close()
}
