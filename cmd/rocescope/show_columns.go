package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/filter"
)

// column is a field that is printed of each packet.
type column struct {
	name  string           // as typed
	of    filter.Column    // its first value
	rows  []*dissect.Field // where further ones come from
	needs needs
	// outcome is room for what the end of the capture says of a packet.
	outcome *flows.Outcome
}

// newColumns looks the names up and says what they need.
func newColumns(names []string) ([]column, needs, error) {
	var columns []column
	var want needs
	outcome := new(flows.Outcome)
	for _, list := range names {
		for _, name := range strings.Split(list, ",") { // -e a,b is no tshark, but it is meant
			name = strings.TrimSpace(name)
			of, err := filter.LookupColumn(name)
			if err != nil {
				return nil, want, filterError("-e", err)
			}
			c := column{name: name, of: of, rows: dissect.LookupField(name), needs: needsOf(of.Needs(), of.NeedsICRC()), outcome: outcome}
			want = want.or(c.needs)
			columns = append(columns, c)
		}
	}
	return columns, want, nil
}

// completeField completes the value of -e; "infiniband." in front may be left out.
func completeField(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var all []string
	seen := map[string]bool{}
	add := func(name, help string) {
		if strings.HasPrefix(name, begun) && !seen[name] {
			seen[name] = true
			all = append(all, cobra.CompletionWithDesc(name, help))
		}
	}
	for _, f := range dissect.Fields() {
		add(f.Name, f.Text)
		if short, ok := strings.CutPrefix(f.Name, "infiniband."); ok && begun != "" {
			add(short, f.Text)
		}
	}
	for _, f := range flows.Fields() {
		add(f.Name, f.Text)
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// append appends value number n (from 0) that packet i has of the field; ok is
// false, and dst unchanged, where it has no more.
func (c *column) append(dst []byte, b *engine.Batch, i, n int) (out []byte, ok bool) {
	p, frame := &b.Packets[i], b.Data[i]
	if len(c.rows) > 0 && c.rows[0].Layer.InFPDU() {
		return c.ofFPDUs(dst, p, frame, n)
	}
	if n == 0 {
		var o *flows.Outcome
		if c.needs.end {
			o = b.Outcome(i, c.outcome)
		}
		return c.of.Append(dst, p, frame, &b.Marks[i], o)
	}
	for _, f := range c.rows {
		if out, ok := f.AppendText(dst, p, frame); ok {
			if n == 0 {
				return out, true
			}
			n--
		}
	}
	return dst, false
}

// ofFPDUs is append for what each FPDU of a segment may have.
func (c *column) ofFPDUs(dst []byte, p *dissect.Packet, frame []byte, n int) (out []byte, ok bool) {
	p.EachFPDU(frame, func() bool {
		for _, f := range c.rows {
			if out, ok = f.AppendText(dst, p, frame); ok {
				if n == 0 {
					return false
				}
				n--
			}
		}
		ok = false
		return true
	})
	if !ok {
		return dst, false
	}
	return out, true
}

func (c *column) isNumber() bool {
	var width uint16
	if len(c.rows) > 0 {
		width = c.rows[0].Width
	}
	return isNumber(c.of.Kind(), width)
}

func appendFlow(dst []byte, f *flows.Field, v uint64) []byte {
	row := dissect.Field{Kind: f.Kind, Values: f.Values}
	return row.AppendUint(dst, v)
}
