package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/privacy"
)

// secrets are who talks in a capture, and with which keys.
type secrets struct {
	words map[string]bool // as they are printed
	bytes map[string]bool // as they stand in frames
	masks map[string]bool // of addresses, as they may be printed
}

// privacyKey is the secret of the test's masks.
const privacyKey = "of this test"

// strangerHost is in a filter, and need not be in a capture.
const strangerHost = "10.77.0.1"

// secretsOf reads them from the capture's bytes, where the field table says that they are.
func secretsOf(t *testing.T, file string) secrets {
	s := secrets{words: map[string]bool{}, bytes: map[string]bool{}, masks: map[string]bool{}}
	mask := privacy.New(privacyKey)
	s.masks[mask.Text(strangerHost)] = true
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
					s.words[a.String()], s.masks[mask.Addr(a).String()] = true, true
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

// ipv4Word is what looks like an address of IPv4.
var ipv4Word = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`)

// check finds secrets in what a command printed or wrote, and addresses that are not the mask that the other commands use. A mask
// keeps the first byte: what begins otherwise is a section of the specification, or chance.
func (s secrets) check(t *testing.T, what, text string) {
	t.Helper()
	if w := s.leak(text); w != "" {
		t.Errorf("%s tells %s", what, w)
	}
	for _, w := range ipv4Word.FindAllString(text, -1) {
		if strings.HasPrefix(w, "10.") && !s.masks[w] {
			t.Errorf("%s has the address %s, which is the mask of none", what, w)
			return
		}
	}
}

// damagedCopy is a capture in whose frames keys, addresses and payload changed on the way, one bit in each seventh.
func damagedCopy(t *testing.T, file string) string {
	t.Helper()
	src, err := captures.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	var out bytes.Buffer
	var w *captures.Writer
	var d dissect.Decoder
	var p dissect.Packet
	room := make([]captures.Frame, 64)
	for n := 0; ; {
		got, err := src.ReadBatch(room)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if w == nil {
			w = captures.NewWriter(&out, captures.WriterOptions{Interfaces: src.Interfaces()})
		}
		for i := range room[:got] {
			f := &room[i]
			data := slices.Clone(f.Data)
			d.Decode(f.Link, data, f.WireLen, &p)
			if n++; n%7 == 0 && p.Has(dissect.LayerBTH) {
				at := p.Offset(dissect.LayerBTH) + dissect.LayerBTH.Size()
				if p.Has(dissect.LayerRETH) {
					at = p.Offset(dissect.LayerRETH) + 9 // in the R_Key
				}
				if at < len(data) {
					data[at] ^= 4
				}
			}
			f.Data = data
			if err := w.Write(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := file + ".damaged.pcapng"
	if err := errors.Join(w.Flush(), os.WriteFile(path, out.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// parquetText is all values of a Parquet file, as words.
func parquetText(t *testing.T, path string) string {
	t.Helper()
	data := mustRead(t, path)
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, group := range f.RowGroups() {
		rows := group.Rows()
		room := make([]parquet.Row, 64)
		for {
			n, err := rows.ReadRows(room)
			for _, r := range room[:n] {
				for _, v := range r {
					b.WriteString(v.String() + " ")
				}
				b.WriteString("\n")
			}
			if err != nil {
				break
			}
		}
		rows.Close()
	}
	return b.String()
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
			rows, compared, damaged := filepath.Join(dir, "parquet"), filepath.Join(dir, "d.html"), damagedCopy(t, file)
			asked := map[string]bool{}
			for _, args := range [][]string{
				{"show", file},
				{"show", file, "-V", "-x"},
				{"show", file, "-T", "json"},
				{"show", file, "-T", "jsonl"},
				{"show", file, "-T", "csv"},
				{"show", file, "-e", "ip.src", "-e", "ip.dst", "-e", "eth.addr", "-e", "ipv6.addr", "-e", "infiniband.reth.r_key", "-e", "msg.status"},
				{"analyze", file, "-v", "--series", "--shadow"},
				{"analyze", file, "--json", "-Y", "ip.addr != " + strangerHost},
				{"analyze", file, "--messages"},
				{"analyze", file, "--messages", "--json"},
				{"analyze", file, "--workers", "2", "--html", page, "--events", log},
				{"export", file, "--to", "jsonl", "-"},
				{"export", file, "--to", "csv", tables},
				{"export", file, "--to", "parquet", rows},
				{"annotate", file, copied},
				{"diff", file, damaged, "--top", "0"},
				{"diff", file, damaged, "--json"},
				{"diff", file, damaged, "--html", compared},
			} {
				asked[args[0]] = true
				out, errs, code := runCommand(t, append(args, "--privacy-key", privacyKey)...)
				if code != exitOK {
					t.Errorf("%q: exit code %d: %s", args, code, errs)
				}
				s.check(t, strings.Join(args, " "), out+errs)
			}
			for _, g := range commands() {
				for _, c := range g.commands {
					// What captures and prints is TestCapturePrivacy's.
					if c.make(&app{stdout: &output{}}).Flags().Lookup("privacy") != nil && !asked[c.name] && c.name != "capture" {
						t.Errorf("%s has --privacy, and is not tested for it", c.name)
					}
				}
			}
			written, _ := filepath.Glob(filepath.Join(tables, "*"))
			for _, path := range append(written, page, log, compared) {
				content := mustRead(t, path)
				if s.check(t, filepath.Base(path), string(content)); len(content) == 0 {
					t.Errorf("%s is empty", path)
				}
			}
			parts, _ := filepath.Glob(filepath.Join(rows, "*", "*", "*", "*.parquet"))
			for _, path := range parts {
				s.check(t, path, parquetText(t, path))
			}
			if len(written) == 0 || len(parts) == 0 {
				t.Errorf("%d CSV files and %d of Parquet", len(written), len(parts))
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
			if again := text("show", "-V", file, "--privacy-key", privacyKey); again != text("show", "-V", file, "--privacy-key", privacyKey) {
				t.Error("one key makes two masks of the same")
			}
			if one, two := text("show", file, "--privacy"), text("show", file, "--privacy"); one == two {
				t.Error("without a key two runs have the same masks")
			}
		})
	}
}
