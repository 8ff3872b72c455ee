package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
)

// secrets are who talks in a capture, and with which keys.
type secrets struct {
	words map[string]bool // as they are printed
	bytes map[string]bool // as they stand in frames
}

// secretsOf reads them from the capture's bytes, where the field table says that they are.
func secretsOf(t *testing.T, file string) secrets {
	s := secrets{words: map[string]bool{}, bytes: map[string]bool{}}
	src, err := captures.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	var d dissect.Decoder
	var p dissect.Packet
	room := make([]captures.Frame, 64)
	for {
		n, err := src.ReadBatch(room)
		if errors.Is(err, io.EOF) {
			return s
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range room[:n] {
			d.Decode(f.Link, f.Data, f.WireLen, &p)
			for i := range dissect.Fields() {
				s.field(&dissect.Fields()[i], &p, f.Data)
			}
			for _, a := range []dissect.Addr{p.Src, p.Dst} {
				if n := a.Netip(); !a.IsZero() && !n.IsMulticast() && !n.IsUnspecified() {
					s.words[a.String()] = true
				}
			}
		}
	}
}

func (s secrets) field(f *dissect.Field, p *dissect.Packet, frame []byte) {
	raw, ok := f.Raw(p, frame)
	if !ok || f.Kind == dissect.Bytes && f.Name != "infiniband.ieth" {
		return
	}
	text, _ := f.AppendText(nil, p, frame)
	switch f.Kind {
	case dissect.MAC:
		if raw[0]&1 != 0 || string(raw) == "\x00\x00\x00\x00\x00\x00" {
			return
		}
	case dissect.IPv4Addr, dissect.IPv6Addr:
		if w := string(text); strings.HasPrefix(w, "ff0") || strings.HasPrefix(w, "22") || w == "::" || w == "0.0.0.0" {
			return
		}
	default:
		if f.Name != "infiniband.reth.r_key" && f.Name != "infiniband.ieth" && !strings.HasSuffix(f.Name, "caguid") {
			return
		}
		if len(raw) == 4 {
			v := binary.BigEndian.Uint32(raw)
			if v < 0x100 { // such a number stands for anything
				return
			}
			s.words[fmt.Sprintf("0x%x", v)], s.words[fmt.Sprintf("0x%08x", v)], s.words[fmt.Sprintf("%08x", v)] = true, true, true
			s.words[fmt.Sprintf(`key": %d`, v)], s.words[fmt.Sprintf(`key":%d`, v)] = true, true
			return
		}
	}
	s.words[string(text)], s.bytes[string(raw)] = true, true
}

// leak is the first secret in a text, "" without one.
func (s secrets) leak(text string) string {
	for w := range s.words {
		if !strings.Contains(text, w) {
			continue
		}
		if regexp.MustCompile(`(?i)(^|[^0-9a-fx:.])` + regexp.QuoteMeta(w) + `($|[^0-9a-f:.]|\.\D|:\D)`).MatchString(text) {
			return w
		}
	}
	return ""
}

// TestPrivacy looks for every address and key of the sample captures in everything that is printed and written of them.
func TestPrivacy(t *testing.T) {
	for _, sample := range samples.List() {
		t.Run(sample.Name, func(t *testing.T) {
			text := func(args ...string) string { return string(runOK(t, args...)) }
			dir := t.TempDir()
			file, err := writeSample(dir, sample)
			if err != nil {
				t.Fatal(err)
			}
			s := secretsOf(t, file)
			if len(s.words) < 4 || s.leak(text("show", "-V", file)) == "" {
				t.Fatalf("only %d secrets are known", len(s.words))
			}
			page, log, tables, copied := filepath.Join(dir, "r.html"), filepath.Join(dir, "r.jsonl"), filepath.Join(dir, "csv"), filepath.Join(dir, "m.pcapng")
			for _, args := range [][]string{
				{"show"},
				{"show", "-V", "-x"},
				{"show", "-T", "json"},
				{"show", "-T", "jsonl"},
				{"show", "-T", "csv"},
				{"show", "-e", "ip.src", "-e", "ip.dst", "-e", "eth.addr", "-e", "ipv6.addr", "-e", "infiniband.reth.r_key", "-e", "msg.status"},
				{"analyze", "-v", "--series", "--shadow"},
				{"analyze", "--json", "-Y", "ip.addr != 10.77.0.1"},
				{"analyze", "--messages"},
				{"analyze", "--messages", "--json"},
				{"analyze", "--workers", "2", "--html", page, "--events", log},
				{"export", "--to", "jsonl", "-"},
				{"export", "--to", "csv", tables},
				{"annotate", copied},
			} {
				all := append([]string{args[0], file}, args[1:]...)
				if args[0] == "export" {
					all = append([]string{args[0]}, args[1:len(args)-1]...)
					all = append(all, file, args[len(args)-1])
				}
				out, errs, code := runCommand(t, append(all, "--privacy-key", "of this test")...)
				if code != exitOK {
					t.Errorf("%q: exit code %d: %s", args, code, errs)
				}
				if w := s.leak(out + errs); w != "" {
					t.Errorf("%q prints %s", args, w)
				}
			}
			written, _ := filepath.Glob(filepath.Join(tables, "*"))
			for _, path := range append(written, page, log) {
				content, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if w := s.leak(string(content)); w != "" || len(content) == 0 {
					t.Errorf("%s has %s in %d bytes", filepath.Base(path), w, len(content))
				}
			}
			raw, err := os.ReadFile(copied)
			if err != nil {
				t.Fatal(err)
			}
			for b := range s.bytes {
				if strings.Contains(string(raw), b) {
					t.Errorf("the masked copy has the bytes %x", b)
				}
			}
			if w := s.leak(text("show", "-V", copied)); w != "" {
				t.Errorf("the masked copy has %s", w)
			}
			// What can be told but for who it was is the same: ICRCs hold, too.
			const columns = "frame.number,frame.len,infiniband.bth.opcode,infiniband.bth.psn,infiniband.bth.destqp,infiniband.aeth.syndrome,infiniband.invariant.crc.status"
			before, after := text("show", "-e", columns, file), text("show", "-e", columns, copied)
			if before != after {
				t.Errorf("the masked copy differs in more than who it was:\n%s\n%s", before, after)
			}
			if again := text("show", "-V", file, "--privacy-key", "of this test"); again != text("show", "-V", file, "--privacy-key", "of this test") {
				t.Error("one key makes two masks of the same")
			}
			if one, two := text("show", file, "--privacy"), text("show", file, "--privacy"); one == two {
				t.Error("without a key two runs have the same masks")
			}
		})
	}
}
