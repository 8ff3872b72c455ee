package captures

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rocescope/rocescope/dissect"
)

const testSec = int64(1_000_000_000)

func TestPcapng(t *testing.T) {
	head := join(shb(le), idb(le, 1, 0))
	one := epb(le, 0, 10_000_020, "first")
	first := want(10*testSec+20_000, "first", 5, 0, dissect.LinkEthernet)
	// simple is an SPB; cut says how many bytes of data the block holds.
	simple := func(wire uint32, data string) []byte { return block(le, blockSPB, wire, pad4([]byte(data))) }
	// at is where the block behind head begins.
	const at = "block 3 at offset 0x30: "

	for _, test := range []struct {
		name   string
		file   []byte
		frames []Frame
		errs   []wantError
	}{
		{"little-endian", join(head, one), []Frame{first}, nil},
		{"big-endian", join(shb(be), idb(be, 1, 0), epb(be, 0, 10_000_020, "first")), []Frame{first}, nil},
		{
			"sections of either byte order", join(head, one, shb(be), idb(be, 247, 0), epb(be, 0, 1_000_000, "x"), shb(le), idb(le, 1, 0), one),
			[]Frame{first, want(testSec, "x", 1, 1, 247), want(first.Time, "first", 5, 2, 1)},
			nil,
		},
		{"a section of given length", join(block(le, blockSHB, uint32(byteOrderMagic), uint16(1), uint16(0), uint64(56)), idb(le, 1, 0), one), []Frame{first}, nil},
		{"minor version 2 is the same format", join(block(le, blockSHB, uint32(byteOrderMagic), uint16(1), uint16(2), ^uint64(0)), idb(le, 1, 0), one), []Frame{first}, nil},
		{"no packets", head, nil, nil},
		{"no interfaces", shb(le), nil, nil},
		{
			"interfaces of differing link type and snap length", join(head, idb(le, 276, 64), epb(le, 1, 2_000_000, "a"), epb(le, 0, 1_000_000, "b")),
			[]Frame{want(2*testSec, "a", 1, 1, dissect.LinkLinuxSLL2), want(testSec, "b", 1, 0, 1)},
			nil,
		},
		{"a packet of no bytes", join(head, epb(le, 0, 0, "")), []Frame{want(0, "", 0, 0, 1)}, nil},
		{
			"a packet cut by the snap length", join(head, block(le, blockEPB, uint32(0), uint32(0), uint32(5), uint32(2), uint32(4000), "ab")),
			[]Frame{want(5000, "ab", 4000, 0, 1)},
			nil,
		},

		{
			"per-interface resolution and offset", join(shb(le),
				idb(le, 1, 0, option(le, optTsresol, []byte{9})),
				idb(le, 1, 0, option(le, optTsresol, []byte{0x80 | 10})),
				idb(le, 1, 0, option(le, optTsresol, []byte{9}), option(le, optTsoffset, le.AppendUint64(nil, uint64(1000)))),
				idb(le, 1, 0, option(le, optTsoffset, le.AppendUint64(nil, ^uint64(0)))),
				epb(le, 0, 1_700_000_000_123_456_789, "ns"), epb(le, 1, 3<<9, "2^-10"), epb(le, 2, 7, "later"), epb(le, 3, 500_000, "before 1970")),
			[]Frame{
				want(1_700_000_000_123_456_789, "ns", 2, 0, 1), want(testSec+testSec/2, "2^-10", 5, 1, 1),
				want(1000*testSec+7, "later", 5, 2, 1), want(-testSec/2, "before 1970", 11, 3, 1),
			},
			nil,
		},
		{
			"times at the limits", join(shb(le), idb(le, 1, 0, option(le, optTsresol, []byte{9})), idb(le, 1, 0, option(le, optTsresol, []byte{0})),
				epb(le, 0, math.MaxUint64, "a"), epb(le, 1, math.MaxUint64, "b"), epb(le, 0, math.MaxInt64, "c"), epb(le, 0, math.MaxInt64+1, "d")),
			[]Frame{want(math.MaxInt64, "a", 1, 0, 1), want(math.MaxInt64, "b", 1, 1, 1), want(math.MaxInt64, "c", 1, 0, 1), want(math.MaxInt64, "d", 1, 0, 1)},
			nil,
		},
		{
			"a resolution of 10^-127 s", join(shb(le), idb(le, 1, 0, option(le, optTsresol, []byte{0x7f})), epb(le, 0, 5, "x")),
			[]Frame{noTime("x", 1, 0, 1)},
			[]wantError{{ErrMalformed, "block 2 at offset 0x1c: damaged: Interface Description Block: option 9 (if_tsresol) says that time counts in 10^-127 s"}},
		},
		{
			"a resolution of 2^-127 s", join(shb(le), idb(le, 1, 0, option(le, optTsresol, []byte{0xff})), epb(le, 0, 5, "x")),
			[]Frame{noTime("x", 1, 0, 1)},
			[]wantError{{ErrMalformed, "2^-127 s"}},
		},
		{
			"an option of wrong length", join(shb(le), idb(le, 1, 0, option(le, optTsresol, []byte{9, 9})), epb(le, 0, 5, "x")),
			[]Frame{want(5000, "x", 1, 0, 1)},
			[]wantError{{ErrMalformed, "option 9 (if_tsresol) has 2 bytes instead of 1"}},
		},
		{
			"a filter of no bytes, and of one", join(shb(le), idb(le, 1, 0, option(le, optFilter, nil)), idb(le, 1, 0, option(le, optFilter, []byte{0})), epb(le, 1, 5, "x")),
			[]Frame{want(5000, "x", 1, 1, 1)},
			nil,
		},
		{"an unknown option", join(shb(le, option(le, 0x8001, []byte("?"))), idb(le, 1, 0, option(le, 2988, []byte("custom"))), one), []Frame{first}, nil},
		{"options behind the end of options", join(shb(le), idb(le, 1, 0, option(le, optEnd, nil), bytesOf(le, uint16(9), uint16(5000))), one), []Frame{first}, nil},
		{"packet options", join(head, epb(le, 0, 10_000_020, "first", option(le, 2, []byte{1, 0, 0, 0}), option(le, optEPBDropCount, le.AppendUint64(nil, 3)), option(le, optEnd, nil))), []Frame{inbound(first)}, nil},
		{
			"directions", join(head, epb(le, 0, 10_000_020, "first", option(le, 2, []byte{2, 0, 0, 0})), epb(le, 0, 10_000_020, "first", option(le, 2, []byte{3, 0, 0, 0})), one),
			[]Frame{outbound(first), first, first},
			nil,
		},

		{"simple packets have no time", join(shb(le), idb(le, 1, 0), simple(5, "hello"), idb(le, 113, 0)), []Frame{noTime("hello", 5, 0, 1)}, nil},
		{"a simple packet cut by the snap length", join(shb(le), idb(le, 1, 6), simple(100, "hello!")), []Frame{noTime("hello!", 100, 0, 1)}, nil},
		{"a simple packet shorter than it should be", join(shb(le), idb(le, 1, 0), simple(100, "12345678")), []Frame{noTime("12345678", 100, 0, 1)}, nil},
		{
			"an obsolete packet block", join(head, block(le, blockOPB, uint16(0), uint16(2), uint32(0), uint32(7), uint32(3), uint32(60), "abc")),
			[]Frame{want(7000, "abc", 60, 0, 1)},
			nil,
		},
		{"blocks that are nothing to us", join(head, block(le, blockNRB, uint16(1), uint16(8), "....name", uint16(0), uint16(0)),
			block(le, 0x0bad, uint32(32473), "custom"), block(le, 0x40000bad, uint32(1)), block(le, 0x77777777), one, block(le, 10, "secrets")), []Frame{first}, nil},
		{"an unknown block longer than any buffer", join(head, block(le, 0x77777777, strings.Repeat("z", 600_000)), one), []Frame{first}, nil},

		{
			"a packet before any interface", join(shb(le), epb(le, 0, 1, "x"), idb(le, 1, 0), one),
			[]Frame{first},
			[]wantError{{ErrMalformed, "block 2 at offset 0x1c: damaged: Enhanced Packet Block refers to interface 0 before any was described"}},
		},
		{"a simple packet before any interface", join(shb(le), simple(1, "x"), idb(le, 1, 0), one), []Frame{first}, []wantError{{ErrMalformed, "Simple Packet Block refers to interface 0 before any"}}},
		{
			"an interface that there is not", join(head, epb(le, 1, 1, "x"), one),
			[]Frame{first},
			[]wantError{{ErrMalformed, at + "damaged: Enhanced Packet Block refers to interface 1, this section has described 1 (from 0)"}},
		},
		{
			"an interface that there is not, obsolete block", join(head, block(le, blockOPB, uint16(7), uint16(0), uint32(0), uint32(7), uint32(0), uint32(0)), one),
			[]Frame{first},
			[]wantError{{ErrMalformed, at + "damaged: Packet Block refers to interface 7"}},
		},
		{"statistics of an interface that there is not", join(head, block(le, blockISB, uint32(3), uint64(0)), one), []Frame{first}, []wantError{{ErrMalformed, "Interface Statistics Block refers to interface 3"}}},
		{
			"interfaces do not outlive their section", join(head, one, shb(le), one, idb(le, 1, 0), one),
			[]Frame{first, want(first.Time, "first", 5, 1, 1)},
			[]wantError{{ErrMalformed, "block 5 at offset 0x74: damaged: Enhanced Packet Block refers to interface 0 before"}},
		},
		{
			"captured length of all ones", join(head, block(le, blockEPB, uint32(0), uint64(0), ^uint32(0), uint32(60), "0123"), one),
			[]Frame{first},
			[]wantError{{ErrMalformed, at + "damaged: Enhanced Packet Block says 4294967295 captured bytes, its block has room for 4"}},
		},
		{
			"captured length of all ones, obsolete block", join(head, block(le, blockOPB, uint32(0), uint64(0), ^uint32(0), uint32(60), "0123"), one),
			[]Frame{first},
			[]wantError{{ErrMalformed, "Packet Block says 4294967295 captured bytes"}},
		},
		{
			"blocks shorter than they can be", join(head, block(le, blockEPB, "1234"), block(le, blockSPB), block(le, blockOPB), block(le, blockISB), block(le, blockIDB), one),
			[]Frame{first},
			[]wantError{
				{ErrMalformed, "Enhanced Packet Block of 16 bytes"},
				{ErrMalformed, "Simple Packet Block of 12"},
				{ErrMalformed, "Packet Block of 12"},
				{ErrMalformed, "Statistics Block of 12"},
				{ErrMalformed, "Description Block of 12"},
			},
		},
		{
			"an option longer than its block", join(shb(le), idb(le, 1, 0, bytesOf(le, uint16(11), uint16(400), "abcd")), one),
			[]Frame{first},
			[]wantError{{ErrMalformed, "block 2 at offset 0x1c: damaged: Interface Description Block: option 11 (if_filter) is longer than its block"}},
		},
		{
			"a packet's option longer than its block", join(head, epb(le, 0, 1, "x", bytesOf(le, uint16(1), uint16(5), "abcd")), one),
			[]Frame{first},
			[]wantError{{ErrMalformed, at + "damaged: Enhanced Packet Block: option 1 (opt_comment) is longer"}},
		},
		{"a statistics option longer than its block", join(head, block(le, blockISB, uint32(0), uint64(0), uint16(4), uint16(9), uint64(1)), one), []Frame{first}, []wantError{{ErrMalformed, "option 4 (isb_ifrecv)"}}},
		{
			"a section option longer than its block", join(head, one, shb(le, bytesOf(le, uint16(3), uint16(9), "abcd")), idb(le, 1, 0), one),
			[]Frame{first, want(first.Time, "first", 5, 1, 1)},
			[]wantError{{ErrMalformed, "Section Header Block: option 3 (shb_os) is longer"}},
		},

		{
			"lengths that differ", join(head, one, patch(one, len(one)-4, 48), one),
			[]Frame{first},
			[]wantError{{ErrMalformed, "block 4 at offset 0x58: damaged: Enhanced Packet Block says 40 bytes at its start and 48 at its end"}},
		},
		{"lengths that differ in a skipped block", join(head, patch(block(le, 99, "abcd"), 12, 20), one), nil, []wantError{{ErrMalformed, at + "damaged: block"}}},
		{"lengths that differ in a section header", patch(shb(le), 24, 20), nil, []wantError{{ErrMalformed, "Section Header Block says 28 bytes at its start and 20 at its end"}}},
		{"a block of no length", join(head, one, make([]byte, 40)), []Frame{first}, []wantError{{ErrMalformed, "says it is 0 bytes long"}}},
		{"a length that is no multiple of 4", join(head, patch(one, 4, 41), one), nil, []wantError{{ErrMalformed, at + "damaged: Enhanced Packet Block says it is 41 bytes long"}}},
		{"a packet of gigabytes", join(head, one, patch(one, 4, 0xfffffff0)), []Frame{first}, []wantError{{ErrMalformed, "says it is 4294967280 bytes long"}}},
		{"a byte-order magic of neither order", join(head, one, patch(shb(le), 8, 0x01020304)), []Frame{first}, []wantError{{ErrMalformed, "byte-order magic 0x04030201"}}},
		{
			"a section of unknown version", join(head, one, block(le, blockSHB, uint32(byteOrderMagic), uint16(2), uint16(0), ^uint64(0)), idb(le, 1, 0), one, one, shb(be), idb(be, 1, 0), epb(be, 0, 1, "x")),
			[]Frame{first, want(1000, "x", 1, 1, 1)},
			[]wantError{{ErrUnsupported, "block 4 at offset 0x58: not supported: pcapng section of version 2.0"}},
		},
		{"a first section of unknown version", join(block(le, blockSHB, uint32(byteOrderMagic), uint16(0), uint16(1), ^uint64(0)), idb(le, 1, 0), one), nil, []wantError{{ErrUnsupported, "block 1 at offset 0x0: not supported: pcapng section of version 0.1"}}},

		{"cut in a block header", join(head, one, one[:11]), []Frame{first}, []wantError{{ErrTruncated, "block 4 at offset 0x58: cut off: the shortest block has 12 bytes, the file has 11 more"}}},
		{"cut in a block", join(head, one, one[:30]), []Frame{first}, []wantError{{ErrTruncated, "block 4 at offset 0x58: cut off: header of Enhanced Packet Block says 40 bytes, the file has 30 more"}}},
		{"cut before a block's last byte", join(head, one[:39]), nil, []wantError{{ErrTruncated, "says 40 bytes, the file has 39 more"}}},
		{"cut in a skipped block", join(head, block(le, 99, "abcdefgh")[:19]), nil, []wantError{{ErrTruncated, at + "cut off: header of block of type 0x63 says 20 bytes"}}},
		{"cut in the first block", shb(le)[:20], nil, []wantError{{ErrTruncated, "block 1 at offset 0x0: cut off: header of Section Header Block says 28 bytes, the file has 20 more"}}},
		{"cut in the first block's header", shb(le)[:9], nil, []wantError{{ErrTruncated, "block 1 at offset 0x0: cut off"}}},
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

// patch returns b with a little-endian 32-bit number overwritten.
func patch(b []byte, at int, v uint32) []byte {
	b = join(b)
	le.PutUint32(b[at:], v)
	return b
}

func TestPcapngInterfaces(t *testing.T) {
	file := join(
		shb(be, option(be, optHardware, []byte("card")), option(be, optOS, []byte("system\x00")), option(be, optUserAppl, []byte("dumper")), option(be, optComment, []byte("hm"))),
		idb(be, 1, 96, option(be, optName, []byte("eth0")), option(be, optDescription, []byte("the \xff first")),
			option(be, optSpeed, be.AppendUint64(nil, 100e9)), option(be, optTsresol, []byte{9}), option(be, optFilter, []byte("\x00udp port 4791")),
			option(be, optFCSLen, []byte{4}), option(be, optTsoffset, be.AppendUint64(nil, ^uint64(1))), option(be, optIfHardware, []byte("port"))),
		block(be, blockISB, uint32(0), uint64(0), option(be, optIfRecv, be.AppendUint64(nil, 10)), option(be, optIfDrop, be.AppendUint64(nil, 1))),
		epb(be, 0, 1, "x", option(be, optEPBDropCount, be.AppendUint64(nil, 4))),
		epb(be, 0, 1, "x", option(be, optEPBDropCount, be.AppendUint64(nil, 5))),
		block(be, blockOPB, uint16(0), uint16(6), uint64(0), uint32(0), uint32(0)),
		block(be, blockOPB, uint16(0), uint16(0xffff), uint64(0), uint32(0), uint32(0)),
		block(be, blockISB, uint32(0), uint64(0), option(be, optIfRecv, be.AppendUint64(nil, 20)), option(be, optFilterAccept, be.AppendUint64(nil, 15)),
			option(be, optOSDrop, be.AppendUint64(nil, 2)), option(be, optUsrDeliv, be.AppendUint64(nil, math.MaxUint64))),
		shb(le),
		idb(le, 276, 0, option(le, optFilter, []byte("\x01bytecode")), option(le, optTsresol, []byte{0x80 | 32})),
	)
	g := readEveryWay(t, file)
	checkErrors(t, g.errs, nil)
	second := noStats
	first := InterfaceStats{Received: 20, Dropped: 1, FilterAccepted: 15, OSDropped: 2, Delivered: math.MaxInt64, PacketDropped: 15}
	if diff := cmp.Diff([]Interface{
		{
			Name: "eth0", Description: "the \ufffd first", Filter: "udp port 4791", Hardware: "port", OS: "system", Application: "dumper",
			Link: 1, SnapLen: 96, FCSLen: 4, Speed: 100e9, Resolution: "10^-9 s", UnitsPerSecond: 1e9, TimeOffset: -2, Stats: first,
		},
		{Link: 276, FCSLen: -1, Resolution: "2^-32 s", UnitsPerSecond: 1 << 32, Stats: second},
	}, g.ifs); diff != "" {
		t.Error(diff)
	}
}

func TestInterfacesAreBounded(t *testing.T) {
	file := shb(le)
	for range maxInterfaces + 1 {
		file = append(file, idb(le, 1, 0)...)
	}
	src, err := Open(tempFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	g := drain(t, src, 10)
	checkErrors(t, g.errs, []wantError{{ErrUnsupported, "more than 65536 interfaces"}})
	if len(g.ifs) != maxInterfaces {
		t.Errorf("%d interfaces", len(g.ifs))
	}
}
