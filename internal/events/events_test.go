package events

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/testkit"
)

// The documentation has the table of types; -update writes it.
func TestDocumentation(t *testing.T) {
	page := filepath.Join(testkit.ModuleRoot(t), "docs", "events.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| type | meaning | members beside `type`, `frame`, `time_ns` |\n|---|---|---|\n")
	for _, row := range Types() {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", row.Name, row.Text, "`"+strings.Join(row.Fields, "`, `")+"`")
	}
	const from, to = "<!-- types -->\n", "<!-- /types -->"
	before, rest, _ := strings.Cut(string(text), from)
	was, after, ok := strings.Cut(rest, to)
	if !ok {
		t.Fatalf("%s has no place for the types", page)
	}
	if was == table.String() {
		return
	}
	if !testkit.Update() {
		t.Fatalf("%s does not have the types as they are: go test ./internal/events -update", page)
	}
	if err := os.WriteFile(page, []byte(before+from+table.String()+to+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Nothing is allocated for a packet, whatever happens to it.
func TestWriterAllocatesNothing(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	m := x.A.Write(3000)
	m.Packets[1].Drop()
	x.B.NAK(m.First.Add(1), dissect.NAKSequence)
	m.ResendFrom(1)
	x.B.Answer(m)
	packets, data := testkit.Decode(x.Frames())
	b := engine.Batch{Batch: flows.Batch{Packets: packets, Data: data, Marks: make([]flows.Mark, len(packets))}, Matched: make([]bool, len(packets))}
	for i := range b.Matched {
		b.Matched[i] = true
		packets[i].Number = uint64(i + 1)
	}
	var log bytes.Buffer
	w := New(&log, "test", nil)
	o := flows.Options{}
	w.Listen(&o.Sink)
	flows.New(o).Track(&b.Batch)
	if err := w.Batch(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"type":"nak"`, `"type":"retransmission"`, `"type":"stream"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, log.String())
		}
	}
	log.Grow(1 << 20)
	if n := testing.AllocsPerRun(100, func() {
		log.Reset()
		_ = w.Batch(&b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
