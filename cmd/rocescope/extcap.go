package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/version"
)

// extcapOptions are what Wireshark says when it runs us from its extcap folder, and what a user says to put us there.
type extcapOptions struct {
	interfaces bool
	version    string
	of         string // --extcap-interface
	dlts       bool
	config     bool
	reload     string
	capture    bool
	fifo       string
	typed      string // --extcap-capture-filter: what was typed into Wireshark's own filter line
	engine     string
	filter     string
	direction  string

	install   bool
	uninstall bool
	dir       string
}

// extcapPrefix sets our interfaces apart from Wireshark's own.
const extcapPrefix = "rocescope-"

func newExtcapCommand(a *app) *cobra.Command {
	var o extcapOptions
	cmd := &cobra.Command{
		Use:   "extcap",
		Short: "Capture into Wireshark and tshark: install among their interfaces",
		Long: `Capture into Wireshark and tshark, which show the interfaces of rocescope beside their own:
frames come by its engines (packet, or xdp for what the host shall not see) and through its
filter, which keeps RoCE behind VLAN tags, too.

--install writes a small script that runs this program into Wireshark's folder of such
helpers. Wireshark does the rest: it is its protocol (extcap) that the other options speak.
Capturing needs the privileges that "rocescope doctor" names.`,
		Example: `  rocescope extcap --install
  tshark -D
  tshark -i rocescope-eth1 -Y infiniband.aeth.syndrome
  tshark -i rocescope-eth1 -o extcap.rocescope_eth1.engine:xdp`,
		Args: arguments(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return runExtcap(cmd.Context(), a, &o) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.install, "install", false, "put the script into Wireshark's extcap folder")
	f.BoolVar(&o.uninstall, "uninstall", false, "take it out again")
	f.StringVar(&o.dir, "dir", "", "that `folder`, where it is not the one that Wireshark says")
	f.BoolVar(&o.interfaces, "extcap-interfaces", false, "Wireshark asks: which interfaces are there?")
	f.StringVar(&o.version, "extcap-version", "", "Wireshark's `version`")
	f.StringVar(&o.of, "extcap-interface", "", "the `interface` that Wireshark means")
	f.BoolVar(&o.dlts, "extcap-dlts", false, "Wireshark asks: which link types does it have?")
	f.BoolVar(&o.config, "extcap-config", false, "Wireshark asks: which options does it have?")
	f.StringVar(&o.reload, "extcap-reload-option", "", "an `option` whose values Wireshark asks for anew")
	f.BoolVar(&o.capture, "capture", false, "Wireshark says: begin")
	f.StringVar(&o.fifo, "fifo", "", "the `pipe` to write pcapng to")
	f.StringVar(&o.typed, "extcap-capture-filter", "", "a capture `filter` from Wireshark's filter line")
	for _, x := range extcapArgs(&o) {
		f.StringVar(x.value, x.call, x.initial, x.about)
	}
	return cmd
}

// extcapArg is an option that Wireshark shows in its dialog.
type extcapArg struct {
	value   *string
	call    string
	initial string
	display string
	about   string
	values  [][2]string // of a selector: value and text; none is a line to type in
}

func extcapArgs(o *extcapOptions) []extcapArg {
	return []extcapArg{
		{&o.engine, "engine", "packet", "Engine", "`how` frames are captured", [][2]string{
			{"packet", "packet: a copy, the host goes on seeing them"},
			{"xdp", "xdp: takes them from the host"},
		}},
		{&o.filter, "filter", "default", "Capture filter", "what is captured: `default`, none, roce, or an expression that rocescope capture --help explains", nil},
		{&o.direction, "direction", "inout", "Direction", "`which` frames", [][2]string{
			{"inout", "received and sent"},
			{"in", "received"},
			{"out", "sent"},
		}},
	}
}

func runExtcap(ctx context.Context, a *app, o *extcapOptions) error {
	switch {
	case o.install && o.uninstall:
		return errUsage("extcap: --install or --uninstall, not both")
	case o.install:
		return installExtcap(ctx, a, o.dir)
	case o.uninstall:
		return uninstallExtcap(ctx, a, o.dir)
	case o.interfaces:
		return listExtcap(a)
	}
	name, ok := strings.CutPrefix(o.of, extcapPrefix)
	if !ok || name == "" {
		return errUsage("extcap is for Wireshark to run; \"rocescope extcap --install\" puts it there, and then --extcap-interface is one of its %sNAME", extcapPrefix)
	}
	switch {
	case o.dlts:
		fmt.Fprintln(a.stdout, "dlt {number=1}{name=EN10MB}{display=Ethernet}")
		return nil
	case o.config:
		return configureExtcap(a, o)
	case o.capture:
		return captureExtcap(ctx, o, name)
	case o.typed != "": // Wireshark checks what is typed: output is a complaint
		if err := captures.CheckFilter(o.typed); err != nil {
			fmt.Fprintln(a.stdout, plainText(err))
		}
		return nil
	}
	return errUsage("extcap: one of --extcap-dlts, --extcap-config and --capture says what to do with %s", o.of)
}

func plainText(err error) string { return (&plainError{err}).Error() }

// listExtcap says which interfaces there are: those of this machine that are up.
func listExtcap(a *app) error {
	list, err := captures.LiveInterfaces()
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "extcap {version=%s}{display=rocescope}\n", version.Get().Version)
	for _, i := range list {
		if i.Up {
			fmt.Fprintf(a.stdout, "interface {value=%s%s}{display=RoCE by rocescope on %s}\n", extcapPrefix, i.Name, i.Name)
		}
	}
	return nil
}

// configureExtcap describes the dialog.
func configureExtcap(a *app, o *extcapOptions) error {
	for n, x := range extcapArgs(o) {
		kind := "string"
		if len(x.values) > 0 {
			kind = "selector"
		}
		about := strings.ReplaceAll(x.about, "`", "")
		fmt.Fprintf(a.stdout, "arg {number=%d}{call=--%s}{display=%s}{tooltip=%s}{type=%s}", n, x.call, x.display, about, kind)
		if len(x.values) == 0 {
			fmt.Fprintf(a.stdout, "{default=%s}", x.initial)
		}
		fmt.Fprintln(a.stdout)
		for _, v := range x.values {
			fmt.Fprintf(a.stdout, "value {arg=%d}{value=%s}{display=%s}{default=%t}\n", n, v[0], v[1], v[0] == x.initial)
		}
	}
	return nil
}

// captureExtcap streams frames until Wireshark has enough: it closes the pipe, or says so by a signal.
func captureExtcap(ctx context.Context, o *extcapOptions, name string) error {
	if o.fifo == "" {
		return errUsage("extcap --capture writes to a pipe that --fifo names")
	}
	l := liveFlags{liveOptions: liveOptions{name: name, filter: o.filter, engine: o.engine, direction: o.direction}}
	if o.typed != "" {
		if l.filter = o.typed; o.filter != "default" && o.filter != "" {
			l.filter = "(" + o.filter + ") and (" + o.typed + ")"
		}
	}
	if err := l.check(); err != nil {
		return err
	}
	pipe, err := os.OpenFile(o.fifo, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open Wireshark's pipe: %w", err)
	}
	defer pipe.Close()
	src, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	err = relayFrames(pipe, src)
	if errors.Is(err, syscall.EPIPE) {
		return nil // Wireshark has enough
	}
	return err
}

// relayFrames writes what a live source sees, and what it lost, as pcapng.
func relayFrames(to io.Writer, src captures.Source) error {
	w := captures.NewWriter(to, captures.WriterOptions{Application: "rocescope " + version.Get().Version, Interfaces: src.Interfaces()})
	if err := w.Flush(); err != nil {
		return err
	}
	room := make([]captures.Frame, 512)
	var first, last int64
	for {
		n, err := src.ReadBatch(room)
		for i := range room[:n] {
			if first == 0 {
				first = room[i].Time
			}
			last = room[i].Time
			if err := w.Write(&room[i]); err != nil {
				return err
			}
		}
		if err == nil {
			if err := w.Flush(); err != nil {
				return err
			}
			continue
		}
		for i, face := range src.Interfaces() {
			if err := w.Statistics(i, face.Stats, first, last); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return errors.Join(err, w.Flush())
	}
}
