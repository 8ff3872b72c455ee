package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/annotate"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/privacy"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/version"
)

func newAnnotateCommand(a *app) *cobra.Command {
	var force bool
	var hide privacyOptions
	var described exchangeFiles
	cmd := &cobra.Command{
		Use:   "annotate IN OUT",
		Short: "Write a capture anew with each finding as a packet comment, for Wireshark",
		Long: `Write a capture anew as pcapng: each finding is a comment on the frame that proves it, and
the first packet of each stream says which queue pairs talk there. Wireshark and tshark show
comments as frame.comment; packets, their times, interfaces and the rest of the file stay
as they are, byte for byte. A pcap file becomes a pcapng file.

With --privacy, the copy has masked addresses and keys, zeros for payload, ICRCs and
checksums that fit them where the original's did, and nothing else of the capture: it may be given to
others.`,
		Example: `  rocescope annotate trace.pcapng marked.pcapng
  tshark -r marked.pcapng -Y frame.comment -T fields -e frame.number -e frame.comment
  wireshark -Y 'frame.comment contains "psn_gap"' marked.pcapng`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errUsage("annotate reads one capture and writes another: rocescope annotate IN OUT")
			}
			exchanges, err := described.read()
			if err != nil {
				return err
			}
			return runAnnotate(cmd.Context(), a, args[0], args[1], force, hide.mask(), exchanges)
		},
	}
	described.add(cmd.Flags())
	hide.add(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "overwrite OUT if it is there")
	return cmd
}

func runAnnotate(ctx context.Context, a *app, in, out string, force bool, mask *privacy.Mask, exchanges []flows.Exchange) error {
	if in == "-" {
		return errUsage("annotate reads its capture twice: save standard input to a file first")
	}
	from := newInput([]string{in})
	if from.stream {
		return errUsage("annotate reads its capture twice, so that only files will do: save %s first", in)
	}
	from.onlyRead(out)
	notes, snapshot, damage, err := note(ctx, a, from, mask, exchanges)
	if err != nil {
		return err
	}
	comments := notes.Close(snapshot)
	file, err := createOutput(in, out, force)
	if err != nil {
		return err
	}
	buffer := bufio.NewWriterSize(file, 1<<20)
	var n int
	if mask != nil {
		n, err = copyMasked(ctx, buffer, in, comments, mask)
	} else {
		n, err = copyAnnotated(buffer, in, comments)
	}
	if damage != nil && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, captures.ErrTruncated)) {
		err = nil // that was said, and all whole packets are there
	}
	if err = cmp.Or(err, buffer.Flush(), file.Close()); err != nil { // the later ones repeat the first
		return errors.Join(damage, fmt.Errorf("annotate %s: %w", in, &plainError{err}))
	}
	fmt.Fprintf(a.stderr, "%s: %s\n", out, report.Plural(uint64(n), "comment"))
	if notes.Left > 0 {
		fmt.Fprintf(a.stderr, "%s more findings got no comment: %s is the most\n", report.Count(notes.Left), report.Count(annotate.MaxNotes))
	}
	return damage
}

// note reads the capture and finds what to write on its packets. damage is what cuts the capture off.
func note(ctx context.Context, a *app, in *input, mask *privacy.Mask, exchanges []flows.Exchange) (*annotate.Notes, *flows.Snapshot, error, error) {
	src, err := in.open(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	notes := &annotate.Notes{}
	eo := engine.Options{Privacy: mask, CheckICRC: true, Track: true, Sinks: []engine.Sink{notes}}
	eo.Tracker.Exchanges = exchanges
	notes.Listen(&eo.Tracker.Sink)
	p := engine.New(eo)
	stop := a.startProgress(p.Progress)
	got, err := p.Run(ctx, src)
	stop()
	var source *engine.SourceError
	var at *captures.FileError
	switch {
	case err == nil:
	case errors.As(err, &at) && at.Resumable:
		return nil, nil, nil, errors.Join(runError(err), errInput("annotate leaves a file with damaged blocks alone: comments could land on the wrong packets"))
	case errors.As(err, &source):
		return notes, got.Snapshot, runError(err), nil
	default:
		return nil, nil, nil, runError(err)
	}
	return notes, got.Snapshot, nil, nil
}

// createOutput makes the file to write.
func createOutput(in, out string, force bool) (*os.File, error) {
	if from, err := os.Stat(in); err == nil {
		if to, err := os.Stat(out); err == nil && os.SameFile(from, to) {
			return nil, errUsage("annotate cannot write to the file that it reads: choose another name for OUT")
		}
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(out, mode, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, errUsage("%s is there already; --force overwrites it", out)
	}
	return file, err
}

// copyAnnotated writes the capture with its comments.
func copyAnnotated(to io.Writer, in string, c *annotate.Comments) (int, error) {
	file, err := os.Open(in)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	plain, err := annotate.Inflate(file)
	if err != nil {
		return 0, err
	}
	buffered := bufio.NewReader(plain)
	if begin, _ := buffered.Peek(4); annotate.IsPcapng(begin) {
		return annotate.CopyPcapng(to, buffered, c)
	}
	src, err := captures.Open(in)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	return annotate.CopyFrames(to, src, "rocescope "+version.Get().Version, c)
}

// copyMasked writes the capture's frames, masked, with their comments.
func copyMasked(ctx context.Context, to io.Writer, in string, c *annotate.Comments, mask *privacy.Mask) (int, error) {
	src, err := captures.Open(in)
	if err != nil {
		return 0, err
	}
	w := annotate.NewFrameWriter(to, "rocescope "+version.Get().Version, c)
	_, err = engine.New(engine.Options{Privacy: mask, Sinks: []engine.Sink{w}}).Run(ctx, src)
	return w.Comments, cmp.Or(err, w.Flush())
}
