package gopacketlayer

import (
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocescope/rocescope/dissect"
)

// Header is a RoCE header as a gopacket layer. View is the header itself, with
// dissect's getters and setters: bth.View.PSN().
//
// The zero value is ready for decoding; New makes one for serializing.
type Header[V ~[]byte] struct {
	View V

	payload []byte
	next    gopacket.LayerType
	shared  *shared
	outer   []gopacket.SerializableLayer // of a BTH: what its ICRC covers in front of it
}

// shared is what a BTH tells the headers behind it.
type shared struct {
	op        *dissect.OpInfo
	pad       int
	truncated bool // the capture cut the packet: its last bytes are no ICRC
}

func (h *Header[V]) share(s *shared) { h.shared = s }

// LayerType returns the header's layer type.
func (h *Header[V]) LayerType() gopacket.LayerType { return typeOf(layerOf[V]()) }

// CanDecode returns the header's layer type.
func (h *Header[V]) CanDecode() gopacket.LayerClass { return h.LayerType() }

// LayerContents returns the header's bytes.
func (h *Header[V]) LayerContents() []byte { return h.View }

// LayerPayload returns what follows the header; of an ICRC, which is a trailer,
// what it wraps.
func (h *Header[V]) LayerPayload() []byte { return h.payload }

// NextLayerType returns what follows, as far as it is known.
func (h *Header[V]) NextLayerType() gopacket.LayerType { return h.next }

// DecodeFromBytes decodes the header.
func (h *Header[V]) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	l := layerOf[V]()
	n := l.Size()
	h.View, h.payload, h.next = nil, nil, gopacket.LayerTypeZero
	if len(data) < n {
		df.SetTruncated()
		return fmt.Errorf("gopacketlayer: %v needs %d bytes, %d are there", typeOf(l), n, len(data))
	}
	switch l {
	case dissect.LayerICRC:
		return h.decodeTrailer(data)
	case dissect.LayerGRH:
		return h.decodeGRH(data, df)
	}
	h.View, h.payload = data[:n:n], data[n:]
	if l == dissect.LayerBTH {
		if h.shared == nil {
			h.shared = new(shared)
		}
		bth := dissect.BTH(data)
		*h.shared = shared{op: bth.Opcode().Info(), pad: int(bth.PadCnt()), truncated: truncated(df)}
	}
	h.next = h.shared.behind(l)
	return nil
}

// behind returns the layer that follows a header.
func (s *shared) behind(l dissect.Layer) gopacket.LayerType {
	if s == nil || s.op == nil {
		return gopacket.LayerTypeZero
	}
	next := l == dissect.LayerBTH
	for _, h := range s.op.Headers {
		if next {
			return typeOf(h)
		}
		next = h == l
	}
	if s.truncated {
		return gopacket.LayerTypePayload
	}
	return LayerTypeICRC
}

// decodeTrailer takes ICRC and pad off the end of data.
func (h *Header[V]) decodeTrailer(data []byte) error {
	at := len(data) - dissect.ICRCSize
	pad := 0
	if h.shared != nil {
		pad = h.shared.pad
	}
	if pad > at {
		return fmt.Errorf("gopacketlayer: pad count %d, but %d bytes of payload", pad, at)
	}
	h.View, h.payload = data[at:], data[:at-pad]
	if len(h.payload) > 0 {
		h.next = gopacket.LayerTypePayload
	}
	return nil
}

// decodeGRH cuts what follows to the GRH's length, and finds out whether it is
// a BTH.
func (h *Header[V]) decodeGRH(data []byte, df gopacket.DecodeFeedback) error {
	n := dissect.LayerGRH.Size()
	grh := dissect.IPv6(data[:n:n])
	h.View, h.payload = V(grh), data[n:]
	if want := int(grh.PayloadLen()); want < len(h.payload) {
		h.payload = h.payload[:want]
	} else if want > len(h.payload) {
		df.SetTruncated()
	}
	h.next = gopacket.LayerTypePayload
	if grh.NextHeader() == nextHeaderBTH {
		h.next = LayerTypeBTH
	}
	return nil
}

// nextHeaderBTH is the next header value of a GRH in front of a BTH (IBA 8.3).
const nextHeaderBTH = 0x1B

// truncated reports whether a layer further out said that the packet is cut.
// gopacket hands down nothing of that kind, but the two things that call
// decoders can be asked.
func truncated(df gopacket.DecodeFeedback) bool {
	switch d := df.(type) {
	case gopacket.Packet:
		return d.Metadata().Truncated
	case *gopacket.DecodingLayerParser:
		return d.Truncated
	}
	return false
}

// decoder decodes a header and all that follow it into a packet. It takes them
// in one go because only the BTH knows what they are.
func decoder(first func() header) gopacket.Decoder {
	return gopacket.DecodeFunc(func(data []byte, p gopacket.PacketBuilder) error {
		h := first()
		if h.LayerType() == LayerTypeBTH && !forUs(p) {
			return p.NextDecoder(gopacket.LayerTypePayload)
		}
		var s shared
		for {
			h.share(&s)
			if err := h.DecodeFromBytes(data, p); err != nil {
				return err
			}
			p.AddLayer(h)
			data = h.LayerPayload()
			next := h.NextLayerType()
			if next == gopacket.LayerTypeZero && len(data) > 0 {
				next = gopacket.LayerTypePayload // a header by itself
			}
			switch {
			case next == gopacket.LayerTypeZero:
				return nil
			case next == gopacket.LayerTypePayload && len(data) == 0:
				return nil
			case next == gopacket.LayerTypePayload:
				return p.NextDecoder(next)
			}
			h = rows[next-LayerTypeBTH].make()
		}
	})
}

// forUs reports whether a packet behind UDP has RoCE's destination port.
// gopacket would take its source port too.
func forUs(p gopacket.PacketBuilder) bool {
	packet, ok := p.(gopacket.Packet)
	if !ok {
		return true
	}
	all := packet.Layers()
	if len(all) == 0 {
		return true
	}
	udp, ok := all[len(all)-1].(*layers.UDP)
	return !ok || udp.DstPort.LayerType() == LayerTypeBTH
}

// Stack is one layer of each kind for a gopacket.DecodingLayerParser. The
// layers of one Stack know what the BTH among them said.
type Stack struct {
	GRH          GRH
	BTH          BTH
	RDETH        RDETH
	XRCETH       XRCETH
	DETH         DETH
	FETH         FETH
	RETH         RETH
	AtomicETH    AtomicETH
	AETH         AETH
	AtomicAckETH AtomicAckETH
	ImmDt        ImmDt
	IETH         IETH
	ICRC         ICRC
	shared       shared
}

// DecodingLayers returns the layers, to be added to a parser:
//
//	for _, l := range stack.DecodingLayers() {
//		parser.AddDecodingLayer(l)
//	}
func (s *Stack) DecodingLayers() []gopacket.DecodingLayer {
	all := []header{
		&s.GRH, &s.BTH, &s.RDETH, &s.XRCETH, &s.DETH, &s.FETH, &s.RETH, &s.AtomicETH, &s.AETH, &s.AtomicAckETH,
		&s.ImmDt, &s.IETH, &s.ICRC,
	}
	decoding := make([]gopacket.DecodingLayer, len(all))
	for i, h := range all {
		h.share(&s.shared)
		decoding[i] = h
	}
	return decoding
}
