package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/diff"
	"github.com/rocescope/rocescope/internal/events"
)

// diffOptions are the options of `rocescope diff`.
type diffOptions struct {
	json        bool
	html        string
	window      uint
	top         uint
	packetsOnly bool
	fail        bool
	privacy     privacyOptions
}

func newDiffCommand(a *app) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two captures of the same traffic: what was lost, copied, reordered, changed; clocks, delays, messages",
		Long: `Compare two captures of the same traffic, taken in two places or in two runs.

Two places: packets are matched by queue pair, PSN, opcode and round; a damaged packet is
found by its remains. Each that was lost, duplicated, reordered, changed (which field, which
bit) or marked on the way is named by its frame numbers. Which capture a packet passes first
is found out from the clocks; how far these are apart, and how they drift, is estimated with
an error that is a bound: no packet arrives before it was sent, in neither direction.

Two runs: there are no common packets. Messages are matched by the order of connections and
of work requests in them, and latencies are compared with a confidence of 95 %.

A and B may be event logs too (analyze --events): then messages and findings are compared.
Captures are read several times, so they must be files; memory does not grow with them.`,
		Example: `  rocescope diff client.pcapng server.pcapng
  rocescope diff client.pcapng server.pcapng --json | jq '.listed_packets[] | select(.kind == "lost") | .frame_a'
  rocescope diff before.pcapng after.pcapng --html change.html
  rocescope diff client.pcapng server.pcapng --privacy          for others: who talked is masked
  rocescope diff monday.jsonl tuesday.jsonl --fail      exit code 3 if they tell different things`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errUsage("diff compares two captures, or two event logs: rocescope diff A B")
			}
			return runDiff(cmd.Context(), a, args[0], args[1], &o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.json, "json", false, "the comparison as one JSON document (rocescope.diff/1)")
	f.StringVar(&o.html, "html", "", "the comparison as a page for a browser, into this `file`")
	f.UintVar(&o.top, "top", defaultTop, "list at most `n` packets, streams, messages and findings in the text; 0 is all")
	f.UintVar(&o.window, "window", 128<<10, "look for a packet among so many `packets` of the other capture; they take 180 bytes each")
	f.BoolVar(&o.packetsOnly, "packets-only", false, "compare packets, not messages and findings: faster")
	o.privacy.add(f)
	f.BoolVar(&o.fail, "fail", false, "exit code 3 if anything but marks and rewritten headers differs")
	return cmd
}

// runDiff compares and tells.
func runDiff(ctx context.Context, a *app, pathA, pathB string, o *diffOptions) error {
	if o.window < 1024 || o.window > 1<<26 {
		return errUsage("--window %d: between 1024 and %d packets", o.window, 1<<26)
	}
	var logs [2]bool
	for i, path := range []string{pathA, pathB} {
		if path == "-" {
			return errUsage("diff reads its captures several times: save standard input to a file first")
		}
		var err error
		if logs[i], err = isLog(path); err != nil {
			return err
		}
	}
	if logs[0] && logs[1] && o.packetsOnly {
		return errUsage("--packets-only needs captures: event logs have no packets")
	}
	if (logs[0] || logs[1]) && o.privacy.mask() != nil {
		return errUsage("diff --privacy needs captures: masked event logs come from analyze --events --privacy-key SECRET, with the same secret for both")
	}
	newInput([]string{pathA, pathB}).onlyRead(o.html)
	r, damage, err := compare(ctx, [2]string{pathA, pathB}, logs, o)
	if err != nil {
		return err
	}
	d := r.Document()
	if o.html != "" {
		if err := writeDiffPage(d, o.html, pathA, pathB); err != nil {
			return err
		}
	}
	switch {
	case o.json:
		err = d.Encode(a.stdout)
	case o.html == "":
		err = d.WriteText(a.stdout, int(o.top))
	}
	if err == nil && o.fail && d.Different() {
		err = errJudged("the two differ (--fail)")
	}
	return errors.Join(damage, err)
}

// compare does the work; damage is what was wrong with files that were read in part.
func compare(ctx context.Context, paths [2]string, logs [2]bool, o *diffOptions) (r *diff.Result, damage, err error) {
	mask := o.privacy.mask()
	var sides [2]diff.Side
	for i, path := range paths {
		sides[i] = diff.Side{Name: path, Open: func() (captures.Source, error) {
			src, err := captures.Open(path)
			return src, inputError(err)
		}}
	}
	if logs[0] || logs[1] {
		r = &diff.Result{NoPackets: true, A: diff.SideInfo{Name: paths[0]}, B: diff.SideInfo{Name: paths[1]}}
	} else {
		if r, err = diff.Packets(ctx, sides[0], sides[1], diff.Options{Window: int(o.window), Privacy: mask}); err != nil {
			return nil, nil, err
		}
		for i, info := range []*diff.SideInfo{&r.A, &r.B} {
			for _, e := range info.Damage {
				damage = errors.Join(damage, errInput("%s: %w", filepath.Base(paths[i]), &plainError{e}))
			}
		}
	}
	if o.packetsOnly {
		return r, damage, nil
	}
	var stories [2]*diff.Story
	for i := range sides {
		var broken *diff.DamageError
		if logs[i] {
			stories[i], err = readLog(paths[i])
		} else {
			stories[i], err = diff.Tell(ctx, sides[i], mask)
		}
		if errors.As(err, &broken) {
			damage, err = errors.Join(damage, errInput("%s: %w", paths[i], err)), nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	r.Messages, err = diff.CompareStories(ctx, stories[0], stories[1])
	return r, damage, err
}

// isLog looks at the beginning of a file.
func isLog(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, errInput("%w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return false, errInput("%s: diff reads its captures several times, so that only files will do", path)
	}
	begin := make([]byte, 64)
	n, err := io.ReadFull(f, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, errInput("%w", err)
	}
	return events.IsLog(begin[:n]), nil
}

func readLog(path string) (*diff.Story, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errInput("%w", err)
	}
	defer f.Close()
	s, err := diff.ReadLog(f)
	var broken *diff.DamageError
	if err != nil && !errors.As(err, &broken) {
		err = errInput("%s: %w", path, err)
	}
	return s, err
}

// diffMark is in each page of a comparison, so that one may be written over.
const diffMark = `name="generator" content="rocescope diff"`

// writeDiffPage writes the page. It overwrites such a page, and nothing else.
func writeDiffPage(d *diff.Document, path, a, b string) error {
	page, err := createOwn("--html", path, "comparison of rocescope", []byte(diffMark))
	if err != nil {
		return err
	}
	return page.write(func(w io.Writer) error {
		return d.WriteHTML(w, "Comparison of "+filepath.Base(a)+" and "+filepath.Base(b))
	})
}
