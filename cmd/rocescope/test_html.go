package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/inject/suite"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/report/html"
	"github.com/rocescope/rocescope/internal/version"
)

// suitePage makes the page of a conformance run.
func suitePage(r *suite.Result) *html.Suite {
	took := report.Duration(time.Duration(r.Took))
	page := &html.Suite{
		Name: "Conformance of " + r.Target, Version: version.Get().Version, Verdict: suiteVerdict(r),
		About: fmt.Sprintf("%s of the suite %q, tier %s, in %s", report.Plural(uint64(len(r.Cases)), "case"), r.Suite, r.Tier, took),
		Facts: []html.Fact{
			{Name: "Suite", Value: r.Suite},
			{Name: "Target", Value: r.Target},
			{Name: "Tier", Value: r.Tier},
			{Name: "Seed", Value: fmt.Sprint(r.Seed)},
			{Name: "Begun", Value: r.Started.UTC().Format(time.RFC3339)},
			{Name: "Took", Value: took + " of the device's time"},
			{Name: "Run by", Value: "rocescope " + version.Get().Version},
		},
	}
	if r.Profile != "" {
		page.Facts = append(page.Facts, html.Fact{Name: "Profile", Value: r.Profile})
	}
	if !r.Complete {
		why := "The run did not come to its end"
		if r.Stopped != "" {
			why += ": " + r.Stopped
		}
		page.Limits = append(page.Limits, why+".")
	}
	if n := r.Totals[suite.Skipped]; n > 0 {
		page.Limits = append(page.Limits, report.Plural(uint64(n), "case")+" skipped, each for the reason that it gives.")
	}
	for i := range r.Cases {
		page.Cases = append(page.Cases, casePage(&r.Cases[i]))
	}
	return page
}

// suiteVerdict says what came of a run in a few words.
func suiteVerdict(r *suite.Result) string {
	var parts []string
	for _, s := range suite.Statuses {
		n := r.Totals[s]
		switch {
		case n == 0:
		case s == suite.Broken:
			parts = append(parts, fmt.Sprintf("%d in error", n))
		case s.Bad() || s == suite.Disputed || s == suite.Reported:
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	tried := len(r.Cases) - r.Totals[suite.Skipped]
	switch {
	case tried == 0:
		return "no case was carried out"
	case len(parts) == 0:
		return fmt.Sprintf("all of %s as required", report.Plural(uint64(tried), "case"))
	}
	return fmt.Sprintf("of %s: %s", report.Plural(uint64(tried), "case"), strings.Join(parts, ", "))
}

func casePage(c *suite.CaseResult) html.Case {
	p := html.Case{
		ID: c.ID, Title: c.Title, Group: c.Role, Status: html.Status(c.Status), Why: c.Why, Required: c.Required, Seen: c.Seen, Rule: c.Rule,
		Took: report.Duration(time.Duration(c.Took)), Again: c.Reproduce, Capture: c.Capture, Left: "rocescope", Right: "device",
	}
	if c.Round > 0 {
		p.ID = fmt.Sprintf("%s, round %d", c.ID, c.Round)
	}
	var alive []string
	for _, x := range []struct{ name, answer string }{{"ping", c.Probe.Ping}, {"same queue pair", c.Probe.Same}, {"another queue pair", c.Probe.Other}} {
		if x.answer != "" {
			alive = append(alive, x.name+": "+x.answer)
		}
	}
	p.Alive = strings.Join(alive, ", ")
	packets := slices.Clone(c.Packets)
	decides := map[int]bool{}
	for i := range c.Problems {
		x := &c.Problems[i]
		var frames []string
		for _, packet := range x.Packets {
			decides[packet.Frame] = true
			frames = append(frames, fmt.Sprint(packet.Frame))
			if !slices.ContainsFunc(packets, func(y suite.Packet) bool { return y.Frame == packet.Frame }) {
				packets = append(packets, packet)
			}
		}
		one := html.Problem{Required: x.Required, Seen: x.Seen, Rule: x.Rule}
		switch len(frames) {
		case 0:
		case 1:
			one.Deciding = "frame " + frames[0]
		default:
			one.Deciding = "frames " + strings.Join(frames, ", ")
		}
		p.Problems = append(p.Problems, one)
	}
	slices.SortStableFunc(packets, func(x, y suite.Packet) int { return x.Frame - y.Frame })
	for _, packet := range packets {
		one := html.CasePacket{
			Frame: uint64(packet.Frame), At: int64(packet.Time), FromDevice: packet.From == "device",
			Text: packet.Text, Class: packetClass(packet.Text), Decides: decides[packet.Frame],
		}
		one.Label, one.Note = packetLabel(packet.Text)
		p.Packets = append(p.Packets, one)
	}
	return p
}

// packetLabel shortens a packet in words to what stands on an arrow, and what stands beside it.
func packetLabel(text string) (label, note string) {
	parts := strings.Split(text, ", ")
	name, _, _ := strings.Cut(strings.TrimPrefix(parts[0], "RC "), " to QP ")
	label = name
	for i, part := range parts[1:] {
		if !strings.HasPrefix(part, "PSN ") && !strings.HasPrefix(part, "MSN ") && !strings.Contains(part, "NAK") && part != "ACK" {
			return label, strings.Join(parts[1+i:], ", ")
		}
		label += " · " + part
	}
	return label, ""
}

// packetClass says how a ladder diagram draws a packet that is given in words.
func packetClass(text string) string {
	switch {
	case strings.Contains(text, "RNR"):
		return "rnr"
	case strings.Contains(text, "NAK"):
		return "nak"
	case strings.Contains(strings.ToLower(text), "icrc"):
		return "damaged"
	case strings.Contains(text, "Acknowledge"), strings.Contains(text, "response"), strings.Contains(text, "Response"), strings.HasPrefix(text, "ACK"):
		return "answer"
	}
	return "request"
}
