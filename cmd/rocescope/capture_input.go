package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/crash"
)

// liveFlags are the options of commands that read an interface in place of files.
type liveFlags struct {
	liveOptions
	stop     stopLimits
	orPacket bool // where the engine xdp cannot be had, the engine packet is taken
}

func (l *liveFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&l.name, "interface", "i", "", "an `interface` to capture from, in place of files")
	f.StringVarP(&l.filter, "capture-filter", "f", "", "with -i: what to capture, as a `filter` that \"rocescope capture --help\" explains")
	l.stop.addStop(f, "with -i: stop at a `limit`, duration:SECONDS or packets:N")
	_ = cmd.RegisterFlagCompletionFunc("interface", completeInterface)
}

// input is the interface, or the files. A limit of packets goes into count.
func (l *liveFlags) input(cmd *cobra.Command, paths []string, count *uint64) (*input, error) {
	switch {
	case l.name == "" && (l.filter != "" || l.stop.text != nil):
		return nil, errUsage("-f and -a are about capturing: -i names an interface")
	case l.name == "" && len(paths) == 0:
		return nil, errUsage("%s needs one or more captures, - for standard input, or an interface (-i); see %q", cmd.Name(), cmd.CommandPath()+" --help")
	case l.name == "":
		return newInput(paths), nil
	case len(paths) > 0:
		return nil, errUsage("%s reads an interface or files, not both", cmd.Name())
	case l.stop.size > 0 || l.stop.files > 0:
		return nil, errUsage("-a filesize and -a files are about writing files; %s has duration and packets", cmd.Name())
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	if *count == 0 {
		*count = l.stop.packets
	}
	return &input{paths: []string{l.name}, stream: true, live: l}, nil
}

// open begins to capture. The end of the context, or of the time that was set, ends the capture: what was caught until
// then still comes.
func (l *liveFlags) open(ctx context.Context) (captures.Source, error) {
	live, instead, err := l.begin()
	if err != nil {
		return nil, err
	}
	restore := captures.Prioritize()
	_ = dropPrivileges() // where that cannot be, the capture is still wanted
	src := &endingSource{Live: live, instead: instead, restore: restore, closed: make(chan struct{})}
	var over <-chan time.Time
	if l.stop.duration > 0 {
		over = time.After(l.stop.duration)
	}
	go func() {
		defer crash.Guard()
		select {
		case <-ctx.Done():
		case <-over:
		case <-src.closed:
		}
		live.Stop()
	}()
	return src, nil
}

// begin opens the interface. Where that is by another engine than was asked for, instead says why.
func (l *liveFlags) begin() (live *captures.Live, instead, err error) {
	live, err = l.liveOptions.open()
	if err == nil || !l.orPacket || l.engine != string(captures.EngineXDP) {
		return live, nil, err
	}
	o := l.liveOptions
	o.engine = string(captures.EnginePacket)
	live, perr := o.open()
	if perr != nil {
		return nil, nil, perr // the interface itself, or no privileges at all
	}
	return live, err, nil
}

// engines names the engine that captures by what the kernel calls it, and says why it is not the one that was asked for.
func (l *liveFlags) engines(instead error) (by, why string) {
	switch {
	case instead != nil:
		why, _, _ = strings.Cut(instead.Error(), "\n") // what to do about it has no room on the screen; doctor says it
		return "AF_PACKET", "not by AF_XDP: " + strings.TrimPrefix(strings.TrimPrefix(why, l.name+": "), "engine xdp: ")
	case l.engine == string(captures.EngineXDP):
		return "AF_XDP", ""
	}
	return "AF_PACKET", ""
}

// endingSource is a live source that somebody else will stop.
type endingSource struct {
	*captures.Live
	instead error // why it is not by the engine that was asked for; nil where it is
	once    sync.Once
	restore func() // the priority
	closed  chan struct{}
}

// Close implements captures.Source.
func (s *endingSource) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.restore()
	})
	return s.Live.Close()
}

// context is what a run over the input lives under: a live source ends with the outer one, and the run with the source.
func (in *input) context(ctx context.Context) context.Context {
	if in.live != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}
