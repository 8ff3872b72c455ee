package tui

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/index"
	"github.com/rocescope/rocescope/internal/packetline"
	"github.com/rocescope/rocescope/internal/report"
)

// maxCopy is how much terminals take over in one go.
const maxCopy = 74_000

// osc52 is the escape sequence that puts a text into the clipboard of the terminal, also over ssh; tmux hands it on.
func osc52(text string) string {
	return "\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(text)) + "\a"
}

// copy puts a text into the terminal's clipboard.
func (s *screen) copy(what, text string) {
	text = s.masked(text)
	if command := s.o.Config.Copy; command != "" {
		s.start("copy "+text, func() func(*screen) {
			cmd := exec.Command("sh", "-c", command)
			cmd.Stdin = strings.NewReader(text)
			out, err := cmd.CombinedOutput()
			return func(s *screen) {
				if err != nil {
					s.fail(fmt.Errorf("%s: %w: %s", command, s.notRun(err), strings.TrimSpace(string(out))))
					return
				}
				s.say("Copied %s by %s: %s", what, command, text)
			}
		})
		return
	}
	if len(text) > maxCopy {
		s.say("That is %s, and terminals take %s at most: write it to a file (%s).", report.Bytes(uint64(len(text))), report.Bytes(maxCopy), s.keys.key(doWrite))
		return
	}
	s.out = append(s.out, osc52(text))
	s.say("Copied %s: %s", what, text)
}

// packetHere is the packet under the cursor, if its bytes are in memory.
func (s *screen) packetHere() (*row, *node) {
	switch v := s.top().(type) {
	case *packetsView:
		if v.focus > 0 {
			return v.list.current(), v.tree.current()
		}
		return v.list.current(), nil
	case *messageView:
		return v.packets.current(), nil
	case *ladderView:
		return v.packet(), nil
	}
	return nil, nil
}

// valueHere is the value under the cursor, and the filter that selects it.
func (s *screen) valueHere() (name, value, filter string) {
	if v, ok := s.top().(*packetsView); ok && v.focus > 0 {
		if n := v.tree.current(); n != nil && n.name != "" {
			filter = n.name
			if !strings.HasSuffix(n.value, "…") && n.value != "" && n.layer != dissect.LayerPayload.String() {
				filter += " == " + n.value
			}
			return n.name, n.value, filter
		}
	}
	if g := s.top().grid(); g != nil {
		return g.cell(s)
	}
	return "", "", ""
}

// copyMenu offers what can be copied here.
func (s *screen) copyMenu() {
	var all []choice
	add := func(label, text string) {
		if text != "" {
			all = append(all, choice{label: label, help: strings.ReplaceAll(text[:min(len(text), 60)], "\n", " "), do: func(s *screen) { s.copy(label, text) }})
		}
	}
	name, value, filter := s.valueHere()
	if value != "" {
		add("value of "+name, value)
	}
	if g := s.top().grid(); g != nil && g.scroll().n > 0 {
		add("row", g.line(s, g.scroll().cur))
	}
	add("filter", filter)
	if r, _ := s.packetHere(); r != nil {
		add("packet as hex", hex.EncodeToString(r.Data))
		add("packet as JSON", packetJSON(s, r))
		add("packet as Go bytes", literal("[]byte{", r.Data, "}"))
		add("packet as Python bytes", literal("bytes([", r.Data, "])"))
	}
	if f, ok := s.top().(*findingsView); ok {
		if it := f.table.current(); it != nil {
			add("finding", it.Summary+"\n"+it.Check().Explain+"\n"+it.Check().Try)
		}
	}
	if m, ok := s.top().(*messageView); ok {
		if text, err := json.MarshalIndent(&m.m, "", "  "); err == nil {
			add("message as JSON", string(text))
		}
	}
	add("command line that opens this", s.commandLine())
	title := "Copy (OSC 52, through ssh and tmux too)"
	if s.o.Config.Copy != "" {
		title = "Copy (" + s.o.Config.Copy + ")"
	}
	s.prompt = newMenu(title, all)
}

// commandLine reopens what is on the screen.
func (s *screen) commandLine() string {
	if s.ses == nil || s.ses.in.Command == "" {
		return ""
	}
	text := s.ses.in.Command
	if s.filter.text != "" {
		text += " -Y " + shellQuote(s.filter.text)
	}
	if tab := s.tab(); tab != doOverview && tab != doTraffic {
		text += " --view " + string(tab)
		if at := s.here().frame; at > 0 && (tab == doPackets || tab == doLadder) {
			text += fmt.Sprintf(" --at %d", at)
		}
	}
	return text
}

func shellQuote(t string) string { return "'" + strings.ReplaceAll(t, "'", `'\''`) + "'" }

func literal(open string, data []byte, end string) string {
	var b strings.Builder
	b.WriteString(open)
	for i, c := range data {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "0x%02x", c)
	}
	b.WriteString(end)
	return b.String()
}

// packetJSON is a packet as one JSON object: fields by their names in filters, values as `show -T jsonl` has them but all as strings.
func packetJSON(s *screen, r *row) string {
	type pair struct{ name, value string }
	var all []pair
	seen := map[string]bool{}
	for _, l := range packetline.AppendLayers(nil, &r.Packet) {
		for _, f := range dissect.LayerFields(l) {
			if v, ok := f.AppendText(nil, &r.Packet, r.Data); ok && !seen[f.Name] {
				seen[f.Name] = true
				all = append(all, pair{f.Name, string(v)})
			}
		}
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, p := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(p.name) + ":")
		v, _ := json.Marshal(p.value)
		b.Write(v)
	}
	b.WriteByte('}')
	return b.String()
}

// fromCell offers what can be made of the value under the cursor: filters, a column, a colour.
func (s *screen) fromCell() {
	name, value, f := s.valueHere()
	if f == "" {
		s.say("There is no field under the cursor to filter by; left and right move it.")
		return
	}
	old := s.filter.text
	var all []choice
	add := func(label, text string) {
		all = append(all, choice{label: label, help: text, do: func(s *screen) { s.applyFilter(text) }})
	}
	add("equals", f)
	add("differs", "not ("+f+")")
	if old != "" {
		add("and", "("+old+") and "+f)
		add("and not", "("+old+") and not ("+f+")")
		add("or", "("+old+") or "+f)
	}
	all = append(all, choice{label: "edit it first", help: f, do: func(s *screen) { s.prompt = newFilterPrompt(s, f) }})
	if field, _, ok := strings.Cut(f, " "); ok || field != "" {
		if strings.Contains(field, ".") && !strings.HasPrefix(field, "frame.") {
			all = append(all, choice{label: "as a column", help: field, do: func(s *screen) { s.addColumn(field) }})
		}
	}
	all = append(all, choice{label: "colour such packets", help: f, do: func(s *screen) { s.colour(f) }})
	s.prompt = newMenu(fmt.Sprintf("%s is %s", name, s.masked(value)), all)
}

// addColumn adds a field to the list of packets.
func (s *screen) addColumn(field string) {
	old := s.columns
	s.setColumns(append(slices.Clone(old), field))
	s.remember(func(s *screen) { s.setColumns(old) })
}

// setColumns has the list of packets show certain fields.
func (s *screen) setColumns(fields []string) {
	s.columns = fields
	for _, v := range s.stack {
		if p, ok := v.(*packetsView); ok {
			p.list.shown = nil
		}
	}
}

// writePrompt asks where the packets go that the filter selects.
func (s *screen) writePrompt() {
	if s.ses == nil {
		return
	}
	what := "all packets"
	if s.privacy != nil {
		defer func() {
			if a, ok := s.prompt.(*ask); ok {
				a.title += " (masked)"
			}
		}()
	}
	var view *index.View
	if v, ok := s.top().(*packetsView); ok && v.of != nil {
		what, view = "packets of "+v.label, v.of
	} else if s.filter.view != nil {
		what, view = "packets of the filter", s.filter.view
	}
	s.prompt = newAsk("Write "+what+" to which pcapng file?", "slice.pcapng", func(s *screen, path string) error {
		path = strings.TrimSpace(path)
		if path == "" {
			return fmt.Errorf("a file's name is wanted")
		}
		s.write(path, view, false)
		return nil
	})
}

// write writes packets to a file, beside the event loop; it asks before it overwrites one.
func (s *screen) write(path string, view *index.View, overwrite bool) {
	ses, masked := s.ses, s.privacy != nil
	s.say("Writing %s …", path)
	s.start("write "+path, func() func(*screen) {
		if _, err := os.Stat(path); err == nil && !overwrite {
			return func(s *screen) {
				s.prompt = newConfirm(path+" is there already. Overwrite it?", func(s *screen) { s.write(path, view, true) })
			}
		}
		n, err := ses.export(path, view, masked)
		return func(s *screen) {
			if err != nil {
				s.fail(fmt.Errorf("write %s: %w", path, err))
				return
			}
			full, ferr := filepath.Abs(path)
			if ferr != nil {
				full = path
			}
			how := "findings as comments"
			if masked {
				how = "masked and without payload, findings as comments"
			}
			s.say("Wrote %s to %s, %s.", report.Plural(n, "packet"), full, how)
		}
	})
}

// commentsOf are the findings that a packet proves, as comments of a capture file.
func commentsOf(found []index.Occurrence) []string {
	var all []string
	for _, o := range found {
		f := flows.Finding{ID: o.ID}
		all = append(all, fmt.Sprintf("%s %s: %s. %s", f.Severity(), o.ID, f.Check().Title, f.Check().Explain))
	}
	return all
}
