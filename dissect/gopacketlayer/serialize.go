package gopacketlayer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocescope/rocescope/dissect"
)

// Why a BTH cannot be serialized with ComputeChecksums.
var (
	ErrNoNetworkLayers = errors.New("gopacketlayer: the ICRC covers the network header: call SetNetworkLayersForICRC")
	ErrNoICRC          = errors.New("gopacketlayer: no ICRC layer behind the BTH")
)

// New returns an empty header for serializing: New[dissect.RETH]().
func New[V ~[]byte]() *Header[V] {
	h := &Header[V]{View: make(V, layerOf[V]().Size())}
	if grh, ok := any(h.View).(dissect.IPv6); ok {
		grh[0] = 6 << 4
		grh.SetNextHeader(nextHeaderBTH)
	}
	return h
}

// NewBTH returns a BTH of an opcode, with the default partition key. The
// opcode's row says which headers have to follow: op.Info().Headers.
func NewBTH(op dissect.Opcode) *BTH {
	return &BTH{View: dissect.BTH(dissect.AppendTransport(nil, op)[:dissect.LayerBTH.Size()])}
}

// SetNetworkLayersForICRC tells a BTH the layers in front of it that its ICRC
// covers, outermost first: IPv4 or IPv6 and UDP, or a GRH. They must be the
// ones that are serialized. It is to be called before serializing with
// ComputeChecksums.
func SetNetworkLayersForICRC(bth *BTH, outer ...gopacket.SerializableLayer) {
	bth.outer = outer
}

// SerializeTo writes the header. A BTH also writes the pad behind the payload
// (with FixLengths, as much as the payload needs, and says so in its pad count)
// and, with ComputeChecksums, the value of the ICRC layer behind it. An ICRC is
// a trailer: it may stand in front of the payload or behind it.
func (h *Header[V]) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	l := layerOf[V]()
	if len(h.View) != 0 && len(h.View) != l.Size() {
		return fmt.Errorf("gopacketlayer: %v of %d bytes, want %d", typeOf(l), len(h.View), l.Size())
	}
	payload := len(b.Bytes())
	add := b.PrependBytes
	if l == dissect.LayerICRC {
		add = b.AppendBytes
	}
	to, err := add(l.Size())
	if err != nil {
		return err
	}
	clear(to)
	copy(to, h.View)
	switch l {
	case dissect.LayerGRH:
		if opts.FixLengths {
			if payload > 0xFFFF {
				return fmt.Errorf("gopacketlayer: GRH cannot say a length of %d bytes", payload)
			}
			dissect.IPv6(to).SetPayloadLen(uint16(payload))
		}
	case dissect.LayerBTH:
		return finish(b, opts, h.outer)
	}
	return nil
}

// finish makes a packet whole whose BTH has just been written.
func finish(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions, outer []gopacket.SerializableLayer) error {
	trailer := 0
	if slices.Contains(b.Layers(), LayerTypeICRC) {
		trailer = dissect.ICRCSize
	}
	bth := dissect.BTH(b.Bytes())
	if opts.FixLengths {
		bth.SetPadCnt(uint8(-(len(bth) - trailer) & 3))
	}
	if pad := int(bth.PadCnt()); pad > 0 {
		if _, err := b.AppendBytes(pad); err != nil {
			return err
		}
		all := b.Bytes()
		at := len(all) - trailer
		copy(all[at:], all[at-pad:len(all)-pad])
		clear(all[at-pad : at])
	}
	if !opts.ComputeChecksums {
		return nil
	}
	switch {
	case trailer == 0:
		return ErrNoICRC
	case len(outer) == 0:
		return ErrNoNetworkLayers
	}
	crc, err := compute(b.Bytes(), outer, opts)
	if err != nil {
		return err
	}
	all := b.Bytes()
	CRC(all[len(all)-trailer:]).SetValue(crc)
	return nil
}

// compute returns the ICRC of a transport packet behind the given layers. It
// serializes them for that into a buffer of their own, with lengths as they
// will have and without checksums, which the ICRC leaves out.
func compute(transport []byte, outer []gopacket.SerializableLayer, opts gopacket.SerializeOptions) (uint32, error) {
	var network dissect.Layer
	switch outer[0].LayerType() {
	case layers.LayerTypeIPv4:
		network = dissect.LayerIPv4
	case layers.LayerTypeIPv6:
		network = dissect.LayerIPv6
	case LayerTypeGRH:
		network = dissect.LayerGRH
	default:
		return 0, fmt.Errorf("gopacketlayer: %v is no network layer of RoCE", outer[0].LayerType())
	}
	opts.ComputeChecksums = false
	scratch := gopacket.NewSerializeBufferExpectedSize(128, len(transport))
	body, err := scratch.AppendBytes(len(transport))
	if err != nil {
		return 0, err
	}
	copy(body, transport)
	for _, layer := range slices.Backward(outer) {
		if err := layer.SerializeTo(scratch, opts); err != nil {
			return 0, err
		}
		scratch.PushLayer(layer.LayerType())
	}
	packet := scratch.Bytes()
	var crc dissect.ICRC
	return crc.Sum(packet[:len(packet)-dissect.ICRCSize], network, len(packet)-len(transport)), nil
}
