//go:build unix

package main

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
	"github.com/rocescope/rocescope/internal/bench/traffic"
)

// gopacketParser decodes as far as gopacket knows the way: Ethernet, IPv4, UDP.
type gopacketParser struct {
	eth     layers.Ethernet
	ip      layers.IPv4
	udp     layers.UDP
	payload gopacket.Payload
	parser  *gopacket.DecodingLayerParser
	decoded []gopacket.LayerType
}

func newGopacketParser() *gopacketParser {
	g := &gopacketParser{}
	g.parser = gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &g.eth, &g.ip, &g.udp, &g.payload)
	g.parser.IgnoreUnsupported = true
	return g
}

// writes returns frames that each hold a whole WRITE of one packet: Ethernet,
// IPv4, UDP, BTH, RETH.
func writes(n int) (frames [][]byte) {
	g := traffic.New(small)
	for len(frames) < n {
		f, _ := g.Next()
		if f[42] == byte(dissect.OpRCWriteOnly) {
			frames = append(frames, append([]byte(nil), f...))
		}
	}
	return frames
}

func decoding(*bench) ([]page.Row, error) {
	const passes = 4000
	frames := writes(64)
	var dec dissect.Decoder
	var p dissect.Packet
	g := newGopacketParser()
	ns, err := inTurn(11, passes*len(frames),
		func() error {
			for range passes {
				for _, f := range frames {
					dec.Decode(dissect.LinkEthernet, f, len(f), &p)
				}
			}
			return nil
		},
		func() error {
			for range passes {
				for _, f := range frames {
					if err := g.parser.DecodeLayers(f, &g.decoded); err != nil {
						return err
					}
				}
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	if !p.Has(dissect.LayerRETH) || g.udp.DstPort != 4791 {
		return nil, errors.New("the frames were not decoded")
	}
	by := measure.Median(each(ns[1], ns[0], ratio))
	return []page.Row{{
		What: "decode Ethernet, IPv4, UDP, BTH, RETH", Ours: nanos(measure.Median(ns[0])),
		Other: "gopacket DecodingLayerParser, to UDP only: " + nanos(measure.Median(ns[1])),
		Ratio: times(by), Goal: "≥ 4×", Met: page.Judge(by >= 4),
	}}, nil
}

func reading(b *bench) ([]page.Row, error) {
	file, err := b.capture(segments, b.packets)
	if err != nil {
		return nil, err
	}
	total := b.packets + opening*segments.Connections
	ours := func(opts ...captures.Option) func() error {
		batch := make([]captures.Frame, 512)
		packets := make([]dissect.Packet, 512)
		return func() error {
			src, err := captures.Open(file, opts...)
			if err != nil {
				return err
			}
			defer src.Close()
			var dec dissect.Decoder
			for seen := 0; ; {
				n, err := src.ReadBatch(batch)
				if errors.Is(err, io.EOF) && seen == total {
					return nil
				}
				if err != nil {
					return err
				}
				seen += n
				for i := range batch[:n] {
					f := &batch[i]
					dec.Decode(f.Link, f.Data, f.WireLen, &packets[i])
				}
			}
		}
	}
	theirs := func() error {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		r, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
		if err != nil {
			return err
		}
		g := newGopacketParser()
		for seen := 0; ; seen++ {
			data, _, err := r.ZeroCopyReadPacketData()
			if errors.Is(err, io.EOF) && seen == total {
				return nil
			}
			if err != nil {
				return err
			}
			if err := g.parser.DecodeLayers(data, &g.decoded); err != nil {
				return err
			}
		}
	}
	ns, err := inTurn(7, total, ours(), theirs, ours(captures.Mapped()), ours(captures.Unmapped()))
	if err != nil {
		return nil, err
	}
	by := measure.Median(each(ns[1], ns[0], ratio))
	rows := []page.Row{{
		What: "read pcapng and decode, packets of up to 1098 bytes", Ours: nanos(measure.Median(ns[0])),
		Other: "pcapgo.NgReader without copies, and DecodingLayerParser: " + nanos(measure.Median(ns[1])),
		Ratio: times(by), Goal: "≥ 1.7×", Met: page.Judge(by >= 1.7),
	}}
	return append(rows, page.Row{
		What: "the same by read(2)", Ours: nanos(measure.Median(ns[3])),
		Other: "by a sliding mapping: " + nanos(measure.Median(ns[2])), Ratio: times(measure.Median(each(ns[2], ns[3], ratio))),
	}), nil
}

func invariantCRC(*bench) ([]page.Row, error) {
	const passes = 2000
	var frames [][]byte
	g := traffic.New(segments)
	for len(frames) < 64 {
		if f, _ := g.Next(); f[42] == byte(dissect.OpRCWriteMiddle) {
			frames = append(frames, append([]byte(nil), f...))
		}
	}
	packets := make([]dissect.Packet, len(frames))
	var dec dissect.Decoder
	for i, f := range frames {
		dec.Decode(dissect.LinkEthernet, f, len(f), &packets[i])
	}
	var icrc dissect.ICRC
	var sum uint32
	ns, err := inTurn(11, passes*len(frames),
		func() error {
			for range passes {
				for i, f := range frames {
					if icrc.Verify(&packets[i], f) != dissect.ICRCValid {
						return errors.New("an ICRC is not valid")
					}
				}
			}
			return nil
		},
		func() error {
			for range passes {
				for _, f := range frames {
					sum += crc32.ChecksumIEEE(f[14 : len(f)-dissect.ICRCSize])
				}
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	by := measure.Median(each(ns[0], ns[1], ratio))
	return []page.Row{{
		What: "verify the ICRC of a packet of 1 KiB", Ours: nanos(measure.Median(ns[0])),
		Other: fmt.Sprintf("crc32.ChecksumIEEE of the same bytes: %s", nanos(measure.Median(ns[1]))),
		Ratio: times(by), Goal: "≤ 1.5×", Met: page.Judge(by <= 1.5),
	}}, nil
}
