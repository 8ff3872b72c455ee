package testkit

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/rocescope/rocescope/dissect"
)

// WriteCapture writes frames to a file of the test's temporary folder and returns its path. The name's end chooses the
// format: .pcapng, else pcap with nanoseconds.
func WriteCapture(t testing.TB, name string, frames []Frame) string {
	t.Helper()
	data, err := CaptureBytes(filepath.Ext(name) == ".pcapng", frames)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// CaptureBytes returns the frames as a capture file, pcapng or pcap. A pcapng file gets an interface for each link type;
// a pcap file has that of the first frame.
func CaptureBytes(ng bool, frames []Frame) ([]byte, error) {
	var buf bytes.Buffer
	first := dissect.LinkEthernet
	if len(frames) > 0 {
		first = frames[0].Link
	}
	info := func(f Frame) gopacket.CaptureInfo {
		return gopacket.CaptureInfo{Timestamp: time.Unix(0, f.Time).UTC(), CaptureLength: len(f.Data), Length: f.WireLen}
	}
	if !ng {
		w := pcapgo.NewWriterNanos(&buf)
		if err := w.WriteFileHeader(262144, layers.LinkType(first)); err != nil {
			return nil, err
		}
		for _, f := range frames {
			if err := w.WritePacket(info(f), f.Data); err != nil {
				return nil, err
			}
		}
		return buf.Bytes(), nil
	}
	w, err := pcapgo.NewNgWriter(&buf, layers.LinkType(first))
	if err != nil {
		return nil, err
	}
	ifaces := map[dissect.LinkType]int{first: 0}
	for _, f := range frames {
		id, ok := ifaces[f.Link]
		if !ok {
			if id, err = w.AddInterface(pcapgo.NgInterface{LinkType: layers.LinkType(f.Link), TimestampResolution: 9}); err != nil {
				return nil, err
			}
			ifaces[f.Link] = id
		}
		ci := info(f)
		ci.InterfaceIndex = id
		if err := w.WritePacket(ci, f.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// ReadCapture reads a whole pcap file of Ethernet frames (microseconds or nanoseconds) or a pcapng file. It is not the
// reader under test.
func ReadCapture(t testing.TB, file string) []Frame {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	frames, err := ParseCapture(data)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return frames
}

// ParseCapture reads the bytes of a pcap or pcapng file.
func ParseCapture(data []byte) ([]Frame, error) {
	var read func() ([]byte, gopacket.CaptureInfo, error)
	var link func(gopacket.CaptureInfo) dissect.LinkType
	if bytes.HasPrefix(data, []byte{0x0A, 0x0D, 0x0D, 0x0A}) {
		r, err := pcapgo.NewNgReader(bytes.NewReader(data), pcapgo.NgReaderOptions{WantMixedLinkType: true})
		if err != nil {
			return nil, err
		}
		read = r.ReadPacketData
		link = func(ci gopacket.CaptureInfo) dissect.LinkType {
			i, _ := r.Interface(ci.InterfaceIndex)
			return dissect.LinkType(i.LinkType)
		}
	} else {
		r, err := pcapgo.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		read = r.ReadPacketData
		link = func(gopacket.CaptureInfo) dissect.LinkType { return dissect.LinkType(r.LinkType()) }
	}
	var frames []Frame
	for {
		data, ci, err := read()
		if errors.Is(err, io.EOF) {
			return frames, nil
		}
		if err != nil {
			return frames, err
		}
		frames = append(frames, Frame{Time: ci.Timestamp.UnixNano(), Data: data, WireLen: ci.Length, Link: link(ci)})
	}
}
