// Package gopacketlayer gives RoCE to programs that use gopacket: importing it
// is enough to find the layers of RoCE v2 behind UDP port 4791, and those of
// RoCE v1 behind EtherType 0x8915.
//
//	packet := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default)
//	if bth, ok := packet.Layer(gopacketlayer.LayerTypeBTH).(*gopacketlayer.BTH); ok {
//		fmt.Println(bth.View.Opcode(), bth.View.PSN())
//	}
//
// There is one layer type, Header, for all headers: it wraps the views of
// package dissect, which it does not repeat. Which extension headers follow a
// BTH is dissect's affair: its opcode table says it.
//
// The layers of a packet are BTH, its extension headers, ICRC and, where there
// is one, gopacket.Payload. The ICRC is a trailer, so it stands in front of
// the payload that it wraps; pad bytes are in neither, and show as the BTH's
// pad count.
//
// Two things that gopacket cannot tell a layer need a word. A single extension
// header cannot tell what follows it, so the decoding layers of a
// DecodingLayerParser come as a Stack, which shares what the BTH said. And the
// ICRC covers the network header, so SetNetworkLayersForICRC has to be called
// before serializing with ComputeChecksums, as SetNetworkLayerForChecksum has
// to be for UDP.
package gopacketlayer
