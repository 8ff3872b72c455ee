package gopacketlayer

import (
	"encoding/binary"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocescope/rocescope/dissect"
)

// The layer types. They take the numbers from 1791 on out of the range that
// gopacket leaves to applications (1000 to 1999).
const (
	LayerTypeBTH gopacket.LayerType = 1791 + iota
	LayerTypeRDETH
	LayerTypeXRCETH
	LayerTypeDETH
	LayerTypeFETH
	LayerTypeRETH
	LayerTypeAtomicETH
	LayerTypeAETH
	LayerTypeAtomicAckETH
	LayerTypeImmDt
	LayerTypeIETH
	LayerTypeICRC
	LayerTypeGRH
)

// The layers.
type (
	BTH          = Header[dissect.BTH]
	RDETH        = Header[dissect.RDETH]
	XRCETH       = Header[dissect.XRCETH]
	DETH         = Header[dissect.DETH]
	FETH         = Header[dissect.FETH]
	RETH         = Header[dissect.RETH]
	AtomicETH    = Header[dissect.AtomicETH]
	AETH         = Header[dissect.AETH]
	AtomicAckETH = Header[dissect.AtomicAckETH]
	ImmDt        = Header[dissect.ImmDt]
	IETH         = Header[dissect.IETH]
	ICRC         = Header[CRC]
	GRH          = Header[dissect.IPv6] // of RoCE v1; it has the layout of IPv6
)

// CRC is the view of an invariant CRC.
type CRC []byte

// Value returns the CRC.
func (c CRC) Value() uint32 { return binary.LittleEndian.Uint32(c) }

// SetValue sets the CRC.
func (c CRC) SetValue(v uint32) { binary.LittleEndian.PutUint32(c, v) }

// header is what all the layers are to the code here.
type header interface {
	gopacket.Layer
	gopacket.DecodingLayer
	share(*shared)
}

// rows ties the layer types to their numbers in dissect, to their names and to
// the wrapper's instances.
var rows = []struct {
	typ   gopacket.LayerType
	layer dissect.Layer
	name  string
	make  func() header
}{
	{LayerTypeBTH, dissect.LayerBTH, "BTH", func() header { return new(BTH) }},
	{LayerTypeRDETH, dissect.LayerRDETH, "RDETH", func() header { return new(RDETH) }},
	{LayerTypeXRCETH, dissect.LayerXRCETH, "XRCETH", func() header { return new(XRCETH) }},
	{LayerTypeDETH, dissect.LayerDETH, "DETH", func() header { return new(DETH) }},
	{LayerTypeFETH, dissect.LayerFETH, "FETH", func() header { return new(FETH) }},
	{LayerTypeRETH, dissect.LayerRETH, "RETH", func() header { return new(RETH) }},
	{LayerTypeAtomicETH, dissect.LayerAtomicETH, "AtomicETH", func() header { return new(AtomicETH) }},
	{LayerTypeAETH, dissect.LayerAETH, "AETH", func() header { return new(AETH) }},
	{LayerTypeAtomicAckETH, dissect.LayerAtomicAckETH, "AtomicAckETH", func() header { return new(AtomicAckETH) }},
	{LayerTypeImmDt, dissect.LayerImmDt, "ImmDt", func() header { return new(ImmDt) }},
	{LayerTypeIETH, dissect.LayerIETH, "IETH", func() header { return new(IETH) }},
	{LayerTypeICRC, dissect.LayerICRC, "ICRC", func() header { return new(ICRC) }},
	{LayerTypeGRH, dissect.LayerGRH, "GRH", func() header { return new(GRH) }},
}

// layerOf returns the number in dissect of a view's header.
func layerOf[V ~[]byte]() dissect.Layer {
	switch any((*V)(nil)).(type) {
	case *dissect.BTH:
		return dissect.LayerBTH
	case *dissect.RDETH:
		return dissect.LayerRDETH
	case *dissect.XRCETH:
		return dissect.LayerXRCETH
	case *dissect.DETH:
		return dissect.LayerDETH
	case *dissect.FETH:
		return dissect.LayerFETH
	case *dissect.RETH:
		return dissect.LayerRETH
	case *dissect.AtomicETH:
		return dissect.LayerAtomicETH
	case *dissect.AETH:
		return dissect.LayerAETH
	case *dissect.AtomicAckETH:
		return dissect.LayerAtomicAckETH
	case *dissect.ImmDt:
		return dissect.LayerImmDt
	case *dissect.IETH:
		return dissect.LayerIETH
	case *CRC:
		return dissect.LayerICRC
	case *dissect.IPv6:
		return dissect.LayerGRH
	}
	panic("gopacketlayer: no layer has this view")
}

// typeOf returns the layer type of a header.
func typeOf(l dissect.Layer) gopacket.LayerType { return types[l] }

var types = [...]gopacket.LayerType{
	dissect.LayerBTH: LayerTypeBTH, dissect.LayerRDETH: LayerTypeRDETH, dissect.LayerXRCETH: LayerTypeXRCETH,
	dissect.LayerDETH: LayerTypeDETH, dissect.LayerFETH: LayerTypeFETH, dissect.LayerRETH: LayerTypeRETH,
	dissect.LayerAtomicETH: LayerTypeAtomicETH, dissect.LayerAETH: LayerTypeAETH,
	dissect.LayerAtomicAckETH: LayerTypeAtomicAckETH, dissect.LayerImmDt: LayerTypeImmDt,
	dissect.LayerIETH: LayerTypeIETH, dissect.LayerICRC: LayerTypeICRC, dissect.LayerGRH: LayerTypeGRH,
}

// init registers the layers: gopacket has no other way in.
func init() {
	for _, r := range rows {
		gopacket.RegisterLayerType(int(r.typ), gopacket.LayerTypeMetadata{Name: r.name, Decoder: decoder(r.make)})
	}
	layers.RegisterUDPPortLayerType(dissect.PortRoCEv2, LayerTypeBTH)
	layers.EthernetTypeMetadata[EtherTypeRoCEv1] = layers.EnumMetadata{
		DecodeWith: LayerTypeGRH, Name: "RoCE v1", LayerType: LayerTypeGRH,
	}
}

// EtherTypeRoCEv1 is the EtherType of RoCE v1.
const EtherTypeRoCEv1 layers.EthernetType = 0x8915
