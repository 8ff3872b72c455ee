package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/sink/metrics"
	"github.com/rocescope/rocescope/internal/version"
)

// captureOptions are the options of `rocescope capture`, named as in dumpcap.
type captureOptions struct {
	live     liveOptions
	write    string // -w
	stop     stopLimits
	rotate   rotation
	force    bool
	quiet    bool
	list     bool // -D
	queue    uint // MiB
	findings bool
	summary  bool // --live
	sink     captureSinkOptions
	metrics  string // address
	privacy  privacyOptions
	exchange exchangeFiles
	known    []flows.Exchange // what they describe
	events   string           // file
}

func newCaptureCommand(a *app) *cobra.Command {
	var o captureOptions
	cmd := &cobra.Command{
		Use:   "capture -i IFACE -w FILE",
		Short: "Write the RoCE traffic of an interface to a file, and count every loss",
		Long: `Write the RoCE traffic of an interface to a pcapng file. Nothing waits for the disk: what
finds a queue full is lost and counted, at each stage, and the table at the end adds up.

The file is readable to its last whole block whatever happens: kill -9, a full disk, an
interface that vanishes. Ctrl-C ends a capture well, with all that was caught until then.

The host's own RDMA traffic is not seen where its card does the work; "rocescope doctor
IFACE" says so, and docs/capture.md what to do.

` + captures.FilterHelp,
		Example: `  rocescope capture -i eth1 -w run.pcapng
  rocescope capture -i eth1 -w run.pcapng -c 100000
  rocescope capture -i eth1 -w ring.pcapng -b filesize:100000 -b files:10    keep the last gigabyte
  rocescope capture -i eth1 -w run.pcapng -f 'default or icmp' -s 128
  rocescope capture -i eth1 -w run.pcapng --findings      say what is wrong while it happens
  rocescope capture -i eth1 -w run.pcapng --events run.jsonl    a line for each loss, NAK, message as it happens
  rocescope capture -i eth1 -w - | rocescope show -
  rocescope capture -i eth1 --sink clickhouse://ch1:9000,ch2:9000/fabric --metrics :9478
  rocescope capture -i eth1 --sink parquet:rows --privacy    rows with masked addresses and keys
  rocescope capture -D`,
		Args: arguments(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.list {
				return a.listInterfaces()
			}
			return a.capture(cmd.Context(), &o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.live.add(f)
	f.StringVarP(&o.write, "write", "w", "", "the `file` to write, - for standard output")
	o.stop.add(f, "stop at a `limit`: duration:SECONDS, packets:N, filesize:KB or files:N")
	f.VarP(&o.rotate, "ring-buffer", "b", "begin another file after `limit` filesize:KB, duration:SECONDS or packets:N; files:N keeps the newest N")
	f.BoolVar(&o.force, "force", false, "overwrite the file if it is there")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no line each second, only the table at the end")
	f.UintVar(&o.queue, "queue", 64, "how many `MiB` may wait for the disk")
	f.BoolVar(&o.findings, "findings", false, "analyze at the same time, and print findings as they come")
	f.BoolVar(&o.summary, "live", false, "analyze at the same time, and say on the line each second what there is")
	f.StringVar(&o.events, "events", "", "analyze at the same time, and write what happens into this `file`, a JSON object a line (rocescope.events/1)")
	o.sink.addLive(f)
	addMetricsFlag(f, &o.metrics)
	o.exchange.add(f)
	o.privacy.add(f)
	f.BoolVarP(&o.list, "list-interfaces", "D", false, "list the interfaces")
	_ = cmd.RegisterFlagCompletionFunc("interface", completeInterface)
	_ = cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions([]string{"packet", "xdp"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check finds what cannot be meant.
func (o *captureOptions) check() error {
	switch {
	case o.live.name == "":
		return errUsage("capture needs an interface: -i IFACE; %q lists them", "rocescope capture -D")
	case o.write == "" && !o.looks():
		return errUsage("capture needs a file to write: -w FILE, or - for standard output; or --findings, --live, --events, --sink or --metrics, to look only")
	case o.write != "" && o.privacy.mask() != nil:
		return errUsage("-w writes packets as they are, and --privacy masks what is told of them: capture into a file first, and \"rocescope annotate --privacy\" makes a masked copy of it")
	case o.write == "-" && o.rotate.r != (captures.Rotation{}):
		return errUsage("-b begins new files, which standard output is not")
	case o.write == "" && (o.rotate.r != (captures.Rotation{}) || o.stop.size > 0 || o.stop.files > 0):
		return errUsage("-b, -a filesize and -a files are about files: -w names one")
	case o.rotate.r.Files > 0 && o.rotate.r == (captures.Rotation{Files: o.rotate.r.Files}):
		return errUsage("-b files says how many to keep; say also when to begin the next: -b filesize:KB, duration:SECONDS or packets:N")
	case o.stop.files > 0 && o.rotate.r == (captures.Rotation{}):
		return errUsage("-a files stops after a number of files: say with -b when the next begins")
	}
	if err := o.sink.checkLive(); err != nil {
		return err
	}
	return o.live.check()
}

// readExchanges reads the descriptions of exchanges, and lets the ports that they name through the filter where there is one.
func (o *captureOptions) readExchanges() (err error) {
	if o.known, err = o.exchange.read(); err != nil {
		return err
	}
	if filter := strings.TrimSpace(o.live.filter); filter == "none" || filter == "all" {
		return nil
	}
	for i := range o.known {
		for _, port := range o.known[i].Ports {
			o.live.tcpPorts = append(o.live.tcpPorts, uint(port))
		}
	}
	return nil
}

// looks says whether the traffic is analyzed while it is captured.
func (o *captureOptions) looks() bool {
	return o.findings || o.summary || o.events != "" || o.sink.to != "" || o.metrics != ""
}

// session is a capture under way.
type session struct {
	a      *app
	o      *captureOptions
	live   *captures.Live
	rec    *captures.Recorder // nil without -w
	look   *lookout           // nil without analysis
	rows   *rowSink           // nil without --sink
	events *eventLog          // nil without --events
	scrape *metrics.Server    // nil without --metrics
	began  time.Time
	clocks clockWatch
	bytes  *counted
}

// capture runs `rocescope capture`.
func (a *app) capture(ctx context.Context, o *captureOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := o.readExchanges(); err != nil {
		return err
	}
	live, err := o.live.open()
	if err != nil {
		return err
	}
	defer live.Close()
	s := &session{a: a, o: o, live: live, began: time.Now(), bytes: &counted{}}
	if o.write != "" {
		if s.rec, err = s.record(); err != nil {
			return err
		}
	}
	if err := s.openOutlets(ctx); err != nil {
		return err
	}
	kept := s.confine()
	if o.looks() {
		var traffic *metrics.Traffic
		if s.scrape != nil {
			traffic = &metrics.Traffic{}
		}
		s.look = newLookout(a, o, live.Interfaces(), s.rows, s.events, traffic)
		if traffic != nil {
			serveMetrics(s.scrape, traffic.Collect, s.collect)
		}
	}
	if !o.quiet {
		s.greet(kept)
	}
	return s.run(ctx)
}

// reach is what a command under way still needs.
type reach struct {
	read    []string // files
	folders []string // to make files in
	back    bool     // and to read them, and folders made there, again
	ports   []uint16 // of TCP, to connect to
}

// confine gives up what a capture under way does not need: capabilities, and all files and connections but those within reach.
// What cannot be given up is no reason to stop, and is said.
func (s *session) confine() error {
	_, _ = time.Now().Zone() // which reads a file the first time
	r := s.o.sink.reach()
	if s.o.rotate.r != (captures.Rotation{}) {
		r.folders = append(r.folders, filepath.Dir(s.o.write))
	}
	f, err := newFence(r)
	if err != nil {
		err = fmt.Errorf("files stay within reach: %w", err)
	}
	if derr := dropPrivileges(); derr != nil {
		return errors.Join(err, fmt.Errorf("capabilities are kept: %w", derr))
	}
	if ferr := f.enter(); ferr != nil {
		err = fmt.Errorf("files stay within reach: %w", ferr)
	}
	return err
}

// record opens the file.
func (s *session) record() (*captures.Recorder, error) {
	ro := captures.RecorderOptions{
		WriterOptions: captures.WriterOptions{
			Application: "rocescope " + version.Get().Version, OS: s.live.Interfaces()[0].OS, Interfaces: s.live.Interfaces(),
		},
		Path: s.o.write, Force: s.o.force, Rotate: s.o.rotate.r, Queue: int(s.o.queue) << 20,
		Stop:       captures.Limits{Packets: s.o.stop.packets, Bytes: s.o.stop.size, Files: s.o.stop.files},
		Statistics: func() []captures.InterfaceStats { return []captures.InterfaceStats{s.statistics()} },
	}
	if s.o.write == "-" {
		ro.Output = s.a.stdout.file
	}
	var rec *captures.Recorder
	err := asInvoker(func() (err error) {
		rec, err = captures.NewRecorder(ro)
		return err
	})
	switch {
	case errors.Is(err, os.ErrExist):
		return nil, fmt.Errorf("%s is there already: --force overwrites it", s.o.write)
	case err != nil:
		return nil, s.writeError(err)
	}
	return rec, nil
}

// writeError says what went wrong with writing; that the reader of standard output went away is nobody's mistake.
func (s *session) writeError(err error) error {
	if s.o.write == "-" && errors.Is(err, syscall.EPIPE) {
		s.a.stdout.end(errStdoutClosed)
		return errStdoutClosed
	}
	return &plainError{err}
}

// statistics are what the file says of the interface: what reached the file counts as delivered.
func (s *session) statistics() captures.InterfaceStats {
	st := s.live.Stats().Interface()
	if s.rec != nil {
		r := s.rec.Stats()
		st.Dropped += int64(r.Dropped + r.Failed)
		st.Delivered = int64(r.Accepted - r.Failed)
	}
	return st
}

// run captures until something ends it, and reports.
func (s *session) run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- s.pump() }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var over <-chan time.Time
	if s.o.stop.duration > 0 {
		timer := time.NewTimer(s.o.stop.duration)
		defer timer.Stop()
		over = timer.C
	}
	var broken <-chan struct{}
	if s.rec != nil {
		broken = s.rec.Broken()
	}
	status := newStatusLine(s)
	s.lookAtClocks(status)
	ended := ctx.Done()
	for {
		select {
		case <-tick.C:
			s.lookAtClocks(status)
			if !s.o.quiet {
				status.print()
			}
		case <-over:
			s.live.Stop()
		case <-broken:
			s.live.Stop()
			broken = nil
		case <-ended:
			s.live.Stop()
			ended = nil
		case err := <-done:
			status.clear()
			s.lookAtClocks(status)
			return s.finish(err)
		}
	}
}

// lookAtClocks says what became of the host's clock since it was last looked at.
func (s *session) lookAtClocks(status *statusLine) {
	var said bytes.Buffer
	if s.clocks.look(&said, readClocks()); said.Len() > 0 && !s.o.quiet {
		status.clear()
		_, _ = said.WriteTo(s.a.stderr)
	}
}

// pump carries frames from the ring to the queues. It never waits for anybody but the ring.
func (s *session) pump() error {
	batch := make([]captures.Frame, 512)
	left := s.o.stop.packets // without a file, nobody else counts
	for {
		n, err := s.live.ReadBatch(batch)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return inputError(err)
		}
		frames, ended := batch[:n], false
		if s.rec != nil {
			n, err := s.rec.Record(frames)
			switch {
			case errors.Is(err, io.EOF):
				ended = true
			case err != nil:
				s.bytes.add(frames)
				return nil // Close says it
			}
			frames = frames[:n]
		} else if left > 0 {
			frames = frames[:min(uint64(n), left)]
			left -= uint64(len(frames))
			ended = left == 0
		}
		s.bytes.add(frames)
		if s.look != nil {
			s.look.queue.Offer(frames)
		}
		if ended {
			return nil
		}
	}
}

// finish ends everything and says what there was.
func (s *session) finish(err error) error {
	if s.look != nil {
		err = errors.Join(err, s.look.finish())
	}
	if s.scrape != nil {
		err = errors.Join(err, s.scrape.Close())
	}
	if s.rec != nil {
		if cerr := s.rec.Close(); cerr != nil {
			err = errors.Join(err, s.writeError(cerr))
		}
	}
	if cerr := s.live.Close(); cerr != nil {
		err = errors.Join(err, cerr)
	}
	fmt.Fprint(s.a.stderr, s.table())
	return err
}

// greet says what is going to happen.
func (s *session) greet(kept error) {
	i := s.live.Interfaces()[0]
	to := ""
	if s.rec != nil {
		to = " to " + s.rec.Stats().File
	}
	fmt.Fprintf(s.a.stderr, "Capturing on %s%s (%s, filter %s)\n", i.Name, to, i.Description, i.Filter)
	if s.scrape != nil {
		fmt.Fprintf(s.a.stderr, "Counters for Prometheus: http://%s/metrics\n", s.scrape.Addr())
	}
	if kept != nil {
		fmt.Fprintf(s.a.stderr, "rocescope: %v\n", kept)
	}
}

// table is what became of all frames. Its first line is the sum of those behind it.
func (s *session) table() string {
	l := s.live.Stats()
	var b strings.Builder
	row := func(indent int, n uint64, what string) {
		fmt.Fprintf(&b, "%s%*s  %s\n", strings.Repeat(" ", indent), 14, report.Count(n), what)
	}
	row(0, l.Seen, "packets passed the filter")
	row(2, l.RingDropped, "lost: the kernel's ring was full (-B makes it larger)")
	for i, r := range l.Rings {
		if len(l.Rings) > 1 && r.Dropped > 0 {
			row(4, r.Dropped, fmt.Sprintf("of these in ring %d, of its %s", i, report.Count(r.Seen)))
		}
	}
	unwanted := l.Waiting
	if s.rec != nil {
		r := s.rec.Stats()
		row(2, r.Dropped, "lost: the disk was too slow (--queue lets more wait)")
		if r.Failed > 0 {
			row(2, r.Failed, "lost: they could not be written")
		}
		row(2, r.Written, "written")
		unwanted += l.Delivered - min(l.Delivered, r.Accepted+r.Dropped)
		if unwanted > 0 {
			row(2, unwanted, "left over when the limit was reached")
		}
		fmt.Fprintf(&b, "%14s  written to %s\n", report.Bytes(r.Bytes), describeFiles(r))
	} else {
		seen := s.bytes.packets.Load()
		row(2, seen, "looked at")
		if unwanted += l.Delivered - seen; unwanted > 0 {
			row(2, unwanted, "left over when the limit was reached")
		}
	}
	if s.look != nil {
		if n := s.look.queue.Dropped(); n > 0 {
			row(0, n, "packets were not analyzed, because that was too slow; the file has them")
		}
	}
	if l.CardDropped > 0 {
		row(0, l.CardDropped, "packets of any kind were dropped by the card before anybody saw them")
	}
	if l.HostTimes > 0 {
		row(0, l.HostTimes, "packets had no time of the adapter's clock, but the host's")
	}
	if l.Late > 0 {
		row(0, l.Late, "packets are in the file behind later ones, as their ring handed them over late")
	}
	if l.Downs > 0 {
		row(0, l.Downs, "times the interface went down")
	}
	if c := &s.clocks; c.sets > 0 {
		row(0, c.sets, "times the clock was set, in all "+leap(c.by)+": the times of packets leap there")
	}
	if c := &s.clocks; c.sleeps > 0 {
		row(0, c.sleeps, "times the machine slept, in all for "+roundly(c.sleeping)+": nothing was captured meanwhile")
	}
	return b.String()
}

func describeFiles(r captures.RecorderStats) string {
	if r.Files == 1 {
		return r.File
	}
	return fmt.Sprintf("%d files, the last of them %s", r.Files, r.File)
}
