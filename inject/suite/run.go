package suite

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// Options say how cases are run. The zero value runs those of the tier quick, once.
type Options struct {
	Tier       string   // quick, full or soak, each with all before it
	Cases      []string // IDs of cases, whatever their tier
	Only, Skip []string // IDs and rows of cases, with * and ?
	Repeat     int
	Seed       uint64
	StopOnHang bool
	Profile    *Profile
	Captures   string // directory for a pcapng file of each case; "" = none
	Command    string // how a reproducer's command line begins; default "rocescope test"
	// CaseTime is the most real time that a case may take; 0 = 60 s.
	CaseTime time.Duration
	// Progress is told of each case before it begins, with a status of "", and when it has ended.
	Progress func(done, total int, c *CaseResult)
	// Seen is told of each packet of a case soon after it passed.
	Seen func(Packet)
	// Counters reads the device's counters where its hook does not.
	Counters func(ctx context.Context) (map[string]int64, error)
}

// Select returns the cases that options ask for. A pattern that matches none is an error.
func (s *Scenario) Select(o *Options) ([]*Case, error) {
	tier := slices.Index(Tiers, cmp.Or(o.Tier, Tiers[0]))
	if tier < 0 {
		return nil, fmt.Errorf("no tier is called %q; there are %s", o.Tier, strings.Join(Tiers, ", "))
	}
	used := map[string]bool{}
	matches := func(patterns []string, c *Case) bool {
		hit := false
		for _, p := range patterns {
			for _, name := range append([]string{c.ID}, c.Rows...) {
				if ok, err := path.Match(strings.ToUpper(p), strings.ToUpper(name)); err == nil && ok {
					used[p] = true
					hit = true
				}
			}
		}
		return hit
	}
	var all []*Case
	for i := range s.Cases {
		c := &s.Cases[i]
		only := matches(o.Only, c)
		skip := matches(o.Skip, c)
		if len(o.Cases) > 0 {
			if k := slices.IndexFunc(o.Cases, func(id string) bool { return strings.EqualFold(id, c.ID) }); k >= 0 {
				used[o.Cases[k]] = true
				all = append(all, c)
			}
			continue
		}
		switch {
		case skip, len(o.Only) > 0 && !only, len(o.Only) == 0 && slices.Index(Tiers, c.Tier) > tier:
		default:
			all = append(all, c)
		}
	}
	for _, p := range slices.Concat(o.Cases, o.Only, o.Skip) {
		if !used[p] {
			return nil, fmt.Errorf("no case is called %q, and none is of such a row", p)
		}
	}
	return all, nil
}

// Execute runs cases against a target. The result is there even with an error, as far as it came.
func Execute(ctx context.Context, t Target, s *Scenario, o Options) (*Result, error) {
	cases, err := s.Select(&o)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	o.Command = cmp.Or(o.Command, "rocescope test")
	res := &Result{
		Schema: Schema, Suite: s.Name, Target: t.Name(), Tier: cmp.Or(o.Tier, Tiers[0]), Seed: o.Seed, Started: started, Totals: map[Status]int{}, Complete: true,
	}
	if o.Profile != nil {
		res.Profile = o.Profile.Name
	}
	if o.Captures != "" {
		if err := os.MkdirAll(o.Captures, 0o755); err != nil {
			return nil, err
		}
	}
	rounds := max(o.Repeat, 1)
	total := rounds * len(cases)
	var pings *bool
	for round := range rounds {
		for _, c := range cases {
			x := CaseResult{ID: c.ID, Title: c.Title, Role: c.Role, Rows: c.Rows, Required: c.Required, Rule: c.Rule}
			if rounds > 1 {
				x.Round = round + 1
			}
			if o.Progress != nil {
				o.Progress(len(res.Cases), total, &x)
			}
			seed := o.Seed + uint64(round)
			x.Reproduce = fmt.Sprintf("%s --case %s --seed %d", o.Command, c.ID, seed)
			pings = c.runOn(ctx, t, &o, seed, pings, &x)
			res.Cases = append(res.Cases, x)
			res.Totals[x.Status]++
			res.Took = Seconds(time.Since(started))
			if o.Progress != nil {
				o.Progress(len(res.Cases), total, &x)
			}
			switch {
			case ctx.Err() != nil:
				res.Stopped = "it was interrupted"
			case x.Status == Hung && o.StopOnHang:
				res.Stopped = "the device hung in case " + c.ID
			default:
				continue
			}
			res.Complete = false
			return res, context.Cause(ctx)
		}
	}
	return res, nil
}

// runOn runs the case against a target.
func (c *Case) runOn(ctx context.Context, t Target, o *Options, seed uint64, pings *bool, x *CaseResult) *bool {
	limit := o.CaseTime
	if limit == 0 {
		limit = time.Minute
		if c.Tier == "soak" {
			limit = time.Hour
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the case took longer than %v", limit))
	defer cancel()
	l, err := t.open(ctx, c, seed)
	if err != nil {
		x.Status, x.Why, x.Seen = Broken, err.Error(), err.Error()
		if errors.Is(err, ErrUnsupported) {
			x.Status = Skipped
		}
		return pings
	}
	defer l.close()
	r := &runner{ctx: ctx, o: o, c: c, l: l, seed: seed, pings: pings}
	err = r.run()
	if err != nil {
		_ = r.digest() // what came until then
	}
	x.Took = Seconds(l.clock() - r.begun)
	x.Problems, x.Probe, x.Frames = r.problems, r.probe, len(r.w.records)
	for _, f := range r.w.findings {
		if id := f.ID.String(); !slices.Contains(x.Findings, id) {
			x.Findings = append(x.Findings, id)
		}
	}
	c.decide(o, err, x)
	switch {
	case len(x.Problems) > 0:
		x.Packets = x.Problems[0].Packets
	default:
		x.Packets = r.packets(r.from-4, r.from)
	}
	if o.Captures != "" && x.Status != Skipped {
		name := filepath.Join(o.Captures, fileName(x))
		if err := r.save(name, x); err != nil {
			x.Status, x.Why = Broken, "the capture cannot be written: "+err.Error()
		} else {
			x.Capture = name
		}
	}
	return r.pings
}

// decide makes a status of what was seen.
func (c *Case) decide(o *Options, err error, x *CaseResult) {
	hung := x.Probe.verdict()
	corrupt := slices.ContainsFunc(x.Problems, func(p Problem) bool { return p.Kind == "memory" || p.Kind == "probe" })
	switch {
	case errors.Is(err, ErrUnsupported):
		x.Status, x.Why, x.Seen = Skipped, "the target cannot be told to do what the case needs: "+err.Error(), "nothing"
		return
	case errors.Is(err, port.ErrFrameSize):
		x.Status, x.Why, x.Seen = Skipped, "the interface cannot send what the case needs: "+err.Error(), "nothing"
		return
	case errors.Is(err, errFlood):
		x.Status, x.Seen = Failed, err.Error()
		x.Problems = append(x.Problems, Problem{Kind: "run", Required: "as many packets as are due", Seen: err.Error()})
		return
	case err != nil:
		x.Status, x.Why, x.Seen = Broken, err.Error(), err.Error()
		return
	case hung != "":
		x.Status, x.Seen = Hung, hung
		if len(x.Problems) > 0 && x.Problems[0].Kind != "probe" {
			x.Seen = x.Problems[0].Seen + "; " + hung
		}
	case len(x.Problems) == 0:
		x.Status, x.Seen = Passed, "as required"
		return
	default:
		x.Status, x.Seen = Failed, x.Problems[0].Seen
	}
	if why := o.Profile.documents(c); why != "" && hung == "" {
		x.Status, x.Why = Documented, why
		return
	}
	switch {
	case hung != "" || corrupt:
	case c.Disputed != "":
		x.Status, x.Why = Disputed, c.Disputed
	case c.Report != "":
		x.Status, x.Why = Reported, c.Report
	}
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

func fileName(x *CaseResult) string {
	name := notInNames.ReplaceAllString(x.ID, "_")
	if x.Round > 0 {
		name += fmt.Sprintf(".%d", x.Round)
	}
	return name + ".pcapng"
}

// createCapture makes a file, in place of a capture of the same name, and of nothing else.
func createCapture(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	begin := make([]byte, 4)
	if n, _ := io.ReadFull(f, begin); n > 0 && binary.BigEndian.Uint32(begin) != 0x0A0D0D0A { // of pcapng
		f.Close()
		return nil, fmt.Errorf("%s is there already, and no capture; it is left alone", name)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	return f, f.Truncate(0)
}

// save writes the case's packets to a file. The first packet of each problem has it as a comment.
func (r *runner) save(name string, x *CaseResult) error {
	f, err := createCapture(name)
	if err != nil {
		return err
	}
	w := captures.NewWriter(f, captures.WriterOptions{
		Application: "rocescope test", Comment: fmt.Sprintf("case %s: %s\nrequired: %s\n%s: %s", x.ID, x.Title, x.Required, x.Status, x.Seen),
		Interfaces: []captures.Interface{{Name: "test", Link: dissect.LinkEthernet}},
	})
	notes := map[int][]string{}
	for _, p := range r.problems {
		if n := len(p.Packets); n > 0 {
			at := p.Packets[n-1].Frame
			notes[at] = append(notes[at], "required: "+p.Required+"; seen: "+p.Seen)
		}
	}
	for i := range r.w.records {
		a := &r.w.records[i]
		fr := captures.Frame{Time: a.time, HasTime: true, Data: a.data, WireLen: len(a.data), Link: dissect.LinkEthernet, Direction: captures.In}
		if a.ours {
			fr.Direction = captures.Out
		}
		if err := w.Write(&fr, notes[i+1]...); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(w.Flush(), f.Close())
}
