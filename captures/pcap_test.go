package captures

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rocescope/rocescope/dissect"
)

func TestPcap(t *testing.T) {
	const sec = int64(1_000_000_000)
	head := pcapHeader(le, magicMicro, 65535, 1)
	one := pcapRecord(le, 10, 20, "first")
	first := want(10*sec+20_000, "first", 5, 0, dissect.LinkEthernet)
	version := func(major, minor uint16) []byte {
		return bytesOf(le, uint32(magicMicro), major, minor, uint32(0), uint32(0), uint32(65535), uint32(1))
	}
	long := strings.Repeat("j", 9000)

	for _, test := range []struct {
		name   string
		file   []byte
		frames []Frame
		errs   []wantError
	}{
		{"little-endian microseconds", join(head, one), []Frame{first}, nil},
		{"big-endian microseconds", join(pcapHeader(be, magicMicro, 65535, 1), pcapRecord(be, 10, 20, "first")), []Frame{first}, nil},
		{
			"little-endian nanoseconds", join(pcapHeader(le, magicNano, 65535, 1), pcapRecord(le, 10, 999_999_999, "x")),
			[]Frame{want(11*sec-1, "x", 1, 0, 1)},
			nil,
		},
		{
			"big-endian nanoseconds", join(pcapHeader(be, magicNano, 65535, 247), pcapRecord(be, 10, 1, "x")),
			[]Frame{want(10*sec+1, "x", 1, 0, dissect.LinkInfiniBand)},
			nil,
		},
		{
			"modified pcap has longer record headers", join(pcapHeader(le, magicModified, 65535, 1),
				bytesOf(le, uint32(10), uint32(20), uint32(3), uint32(60), uint32(2), uint16(0x0800), uint8(4), uint8(0), "abc"),
				bytesOf(le, uint32(11), uint32(0), uint32(1), uint32(1), uint32(2), uint16(0x0800), uint8(4), uint8(0), "d")),
			[]Frame{want(10*sec+20_000, "abc", 60, 0, 1), want(11*sec, "d", 1, 0, 1)},
			nil,
		},
		{
			"modified pcap, big-endian", join(pcapHeader(be, magicModified, 65535, 1),
				bytesOf(be, uint32(10), uint32(20), uint32(3), uint32(60), uint32(2), uint16(0x0800), uint8(4), uint8(0), "abc")),
			[]Frame{want(10*sec+20_000, "abc", 60, 0, 1)},
			nil,
		},
		{"no records", head, nil, nil},
		{"a frame of no bytes", join(head, pcapRecord(le, 1, 0, "")), []Frame{want(sec, "", 0, 0, 1)}, nil},
		{
			"a frame that was cut by the snap length", join(head, bytesOf(le, uint32(1), uint32(0), uint32(2), uint32(9000), "ab")),
			[]Frame{want(sec, "ab", 9000, 0, 1)},
			nil,
		},
		{
			"microseconds of a second and more are carried over", join(head, pcapRecord(le, 10, 1_500_000, "x")),
			[]Frame{want(11*sec+sec/2, "x", 1, 0, 1)},
			nil,
		},
		{"time runs backwards", join(head, one, pcapRecord(le, 9, 0, "x")), []Frame{first, want(9*sec, "x", 1, 0, 1)}, nil},
		{
			"largest time", join(head, pcapRecord(le, math.MaxUint32, math.MaxUint32, "x")),
			[]Frame{want(math.MaxUint32*sec+math.MaxUint32*1000, "x", 1, 0, 1)},
			nil,
		},
		{
			"longer than the snap length, but there", join(pcapHeader(le, magicMicro, 64, 1), pcapRecord(le, 1, 0, long)),
			[]Frame{want(sec, long, 9000, 0, 1)},
			nil,
		},
		{"snap length 0 means none", join(pcapHeader(le, magicMicro, 0, 1), one), []Frame{first}, nil},
		{"an absurd snap length is not believed", join(pcapHeader(le, magicMicro, math.MaxUint32, 1), one), []Frame{first}, nil},
		{
			"version 2.2 wrote the wire's length first", join(version(2, 2), bytesOf(le, uint32(1), uint32(0), uint32(60), uint32(2), "ab")),
			[]Frame{want(sec, "ab", 60, 0, 1)},
			nil,
		},
		{
			"version 2.3 wrote the lengths either way", join(version(2, 3),
				bytesOf(le, uint32(1), uint32(0), uint32(60), uint32(2), "ab"), bytesOf(le, uint32(1), uint32(0), uint32(2), uint32(60), "ab")),
			[]Frame{want(sec, "ab", 60, 0, 1), want(sec, "ab", 60, 0, 1)},
			nil,
		},
		{"version 1", version(1, 4), nil, []wantError{{ErrUnsupported, "file header at offset 0x4: not supported: pcap version 1.4"}}},
		{"version 3", version(3, 0), nil, []wantError{{ErrUnsupported, "pcap version 3.0"}}},
		{"an FCS length above the link type", join(pcapHeader(le, magicMicro, 65535, 0x24000001), one), []Frame{first}, nil},
		{
			"reserved bits above the link type", join(pcapHeader(le, magicMicro, 65535, 0x00010001), one), nil,
			[]wantError{{ErrUnsupported, "offset 0x14: not supported: link type field 0x00010001"}},
		},
		{"the reserved bit between the FCS bits", pcapHeader(le, magicMicro, 65535, 0x08000001), nil, []wantError{{ErrUnsupported, "reserved bits"}}},

		{
			"cut in a record header", join(head, one, one[:7]),
			[]Frame{first},
			[]wantError{{ErrTruncated, "record 2 at offset 0x2d: cut off: a record header has 16 bytes, the file has 7 more"}},
		},
		{
			"cut behind a record header", join(head, one, one[:16]),
			[]Frame{first},
			[]wantError{{ErrTruncated, "record header says 5 captured bytes, the file has 0 more"}},
		},
		{
			"cut in a record", join(head, one, one[:18]),
			[]Frame{first},
			[]wantError{{ErrTruncated, "record 2 at offset 0x2d: cut off: record header says 5 captured bytes, the file has 2 more"}},
		},
		{"cut in the file header", head[:23], nil, []wantError{{ErrTruncated, "a pcap file header has 24 bytes, the file has 23"}}},
		{"cut in the magic number", head[:3], nil, []wantError{{ErrTruncated, "the file has 3 bytes"}}},
		{
			"captured length beyond reason", join(head, one, bytesOf(le, uint32(1), uint32(0), uint32(262145), uint32(1), long)),
			[]Frame{first},
			[]wantError{{ErrMalformed, "record 2 at offset 0x2d: damaged: record says 262145 captured bytes, the most"}},
		},
		{
			"captured length of all ones", join(head, bytesOf(le, uint32(1), uint32(0), ^uint32(0), uint32(1), long)), nil,
			[]wantError{{ErrMalformed, "4294967295 captured bytes"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := readEveryWay(t, test.file)
			if diff := cmp.Diff(test.frames, g.frames); diff != "" {
				t.Error(diff)
			}
			checkErrors(t, g.errs, test.errs)
		})
	}
}

func TestPcapInterface(t *testing.T) {
	for _, test := range []struct {
		name string
		file []byte
		want Interface
	}{
		{
			"plain", pcapHeader(le, magicMicro, 96, 113),
			Interface{Link: dissect.LinkLinuxSLL, SnapLen: 96, FCSLen: -1, Resolution: "10^-6 s", UnitsPerSecond: 1e6},
		},
		{
			"nanoseconds and an FCS of 4 bytes", pcapHeader(be, magicNano, 0, 0x24000001),
			Interface{Link: dissect.LinkEthernet, FCSLen: 4, Resolution: "10^-9 s", UnitsPerSecond: 1e9},
		},
		{
			"an FCS length that is not said to be meant", pcapHeader(le, magicMicro, 1, 0x20000001),
			Interface{Link: dissect.LinkEthernet, SnapLen: 1, FCSLen: -1, Resolution: "10^-6 s", UnitsPerSecond: 1e6},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.want.Stats = noStats
			g := readEveryWay(t, test.file)
			if diff := cmp.Diff([]Interface{test.want}, g.ifs); diff != "" {
				t.Error(diff)
			}
		})
	}
}
