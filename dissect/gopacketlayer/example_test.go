package gopacketlayer_test

import (
	"fmt"
	"log"
	"net"
	"os"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/dissect/gopacketlayer"
)

// Reading RoCE packets in a program that uses gopacket already.
func Example() {
	file, err := os.Open("../../captures/samples/psn_wrap.pcap")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	reader, err := pcapgo.NewReader(file)
	if err != nil {
		log.Fatal(err)
	}
	shown := 0
	for packet := range gopacket.NewPacketSource(reader, reader.LinkType()).Packets() {
		bth, ok := packet.Layer(gopacketlayer.LayerTypeBTH).(*gopacketlayer.BTH)
		if !ok || shown == 3 {
			continue
		}
		shown++
		fmt.Printf("%v, PSN %#06x", bth.View.Opcode(), uint32(bth.View.PSN()))
		if reth, ok := packet.Layer(gopacketlayer.LayerTypeRETH).(*gopacketlayer.RETH); ok {
			fmt.Printf(", a message of %d bytes", reth.View.DMALen())
		}
		fmt.Println()
	}
	// Output:
	// RC RDMA WRITE First, PSN 0xfffff0, a message of 3000 bytes
	// RC RDMA WRITE Middle, PSN 0xfffff1
	// RC RDMA WRITE Last, PSN 0xfffff2
}

// Without allocations: a parser with layers that are used again.
func ExampleStack() {
	var (
		eth  layers.Ethernet
		ip   layers.IPv4
		udp  layers.UDP
		data gopacket.Payload
		roce gopacketlayer.Stack
	)
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &eth, &ip, &udp, &data)
	for _, l := range roce.DecodingLayers() {
		parser.AddDecodingLayer(l)
	}
	decoded := make([]gopacket.LayerType, 0, 16)
	if err := parser.DecodeLayers(aWrite(), &decoded); err != nil {
		log.Fatal(err)
	}
	fmt.Println(decoded)
	fmt.Printf("PSN %d to QP %#x, VA %#x, %q\n", roce.BTH.View.PSN(), roce.BTH.View.DestQP(), roce.RETH.View.VA(), string(data))
	// Output:
	// [Ethernet IPv4 UDP BTH RETH ICRC Payload]
	// PSN 7 to QP 0x11, VA 0x7f0000001000, "hello"
}

// Writing a packet with right lengths, padding, checksums and ICRC.
func Example_serialize() {
	frame := aWrite()

	var decoder dissect.Decoder
	decoder.CheckICRC = true
	var p dissect.Packet
	decoder.Decode(dissect.LinkEthernet, frame, len(frame), &p)
	fmt.Printf("%v: %d bytes of payload, %d of padding, ICRC %v\n", p.Opcode, p.PayloadLen(), p.PadCount, p.ICRC)
	// Output:
	// RC RDMA WRITE Only: 5 bytes of payload, 3 of padding, ICRC valid
}

func aWrite() []byte {
	eth := &layers.Ethernet{
		SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		EthernetType: layers.EthernetTypeIPv4,
	}
	ip := &layers.IPv4{
		Version: 4, TTL: 64, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolUDP,
		SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2},
	}
	udp := &layers.UDP{SrcPort: 0xC011, DstPort: dissect.PortRoCEv2}
	bth := gopacketlayer.NewBTH(dissect.OpRCWriteOnly)
	bth.View.SetDestQP(0x11)
	bth.View.SetPSN(7)
	bth.View.SetAckReq(true)
	reth := gopacketlayer.New[dissect.RETH]() // the opcode's row names it: bth.View.Opcode().Info().Headers
	reth.View.SetVA(0x7F0000001000)
	reth.View.SetRKey(0x1234)
	reth.View.SetDMALen(5)
	icrc := &gopacketlayer.ICRC{}

	// Both checksums cover the network header.
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		log.Fatal(err)
	}
	gopacketlayer.SetNetworkLayersForICRC(bth, ip, udp)

	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opts, eth, ip, udp, bth, reth, icrc, gopacket.Payload("hello")); err != nil {
		log.Fatal(err)
	}
	return buf.Bytes()
}
