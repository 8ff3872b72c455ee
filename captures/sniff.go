package captures

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

const supported = "pcap and pcapng files are read, plain or compressed by gzip or zstd"

// sniffLen is how many first bytes decide what a file is.
const sniffLen = 4

// lookalikes are what people pass by mistake.
var lookalikes = []struct{ magic, what string }{
	{"\xfd7zXZ\x00", "an xz archive; decompress it first"},
	{"BZh", "a bzip2 archive; decompress it first"},
	{"\x04\x22\x4d\x18", "an lz4 archive; decompress it first"},
	{"PK\x03\x04", "a zip archive; unpack it first"},
	{"7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it first"},
	{"\x1f\x8b", "gzip inside another compression; decompress it once first"},
	{"\x28\xb5\x2f\xfd", "zstd inside another compression; decompress it once first"},
	{"snoop\x00\x00\x00", "a Solaris snoop file; convert it with editcap"},
	{"GMBU", "a Microsoft Network Monitor file; convert it with editcap"},
	{"RTSS", "a Microsoft Network Monitor file; convert it with editcap"},
	{"TRSNIFF", "a Sniffer file; convert it with editcap"},
	{"XCP\x00", "a NetXRay file; convert it with editcap"},
	{"\x7fELF", "an ELF program"},
	{"MZ", "a Windows program"},
	{"%PDF", "a PDF document"},
	{"\x89PNG", "a PNG picture"},
	{"\x00\x00\x00\x00", "zeros"},
}

// unknownFormat says what the first bytes of a file that is no capture look like.
func unknownFormat(head []byte) error {
	if len(head) == 0 {
		return fmt.Errorf("%w: the file is empty (0 bytes); %s", ErrFormat, supported)
	}
	what := "nothing that is known"
	for _, l := range lookalikes {
		if bytes.HasPrefix(head, []byte(l.magic)) {
			what = l.what
			break
		}
	}
	if what == "nothing that is known" && isText(head) {
		what = "text"
	}
	return fmt.Errorf("%w: the first bytes, % x, look like %s; %s", ErrFormat, head[:min(len(head), 8)], what, supported)
}

func isText(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 && len(b) >= utf8.UTFMax || r < ' ' && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
		b = b[n:]
	}
	return true
}

// format is what a file's first bytes say.
type format int

const (
	formatUnknown format = iota
	formatShort          // too few bytes, though they begin like a capture
	formatPcap
	formatPcapng
	formatCompressed
)

func sniff(head []byte) format {
	if len(head) >= 2 && binary.BigEndian.Uint16(head) == magicGzip {
		return formatCompressed
	}
	if len(head) < sniffLen {
		for _, m := range []uint32{
			magicMicro, magicMicroSwapped, magicNano, magicNanoSwapped,
			magicModified, magicModifiedSwapped, blockSHB, magicZstd,
		} {
			if len(head) > 0 && bytes.HasPrefix(binary.BigEndian.AppendUint32(nil, m), head) {
				return formatShort
			}
		}
		return formatUnknown
	}
	switch m := magic(head); {
	case isPcapMagic(m):
		return formatPcap
	case m == blockSHB:
		return formatPcapng
	case m == magicZstd:
		return formatCompressed
	}
	return formatUnknown
}
