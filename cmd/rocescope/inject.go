package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/stream"
)

func newInjectCommand(a *app) *cobra.Command {
	var o injectOptions
	cmd := &cobra.Command{
		Use:   "inject OPERATION | mix OPERATION=WEIGHT... | FILE.yaml",
		Short: "Send RoCE v2 traffic open-loop, and account for what comes back",
		Long: `Send RoCE v2 traffic of any kind, at any rate, on many queue pairs, whatever the other end
says: valid packets with the right PSN, address and ICRC, in whole messages. With -i they
leave through an interface, with -w they go to a pcapng file, which needs no privilege.

The operations:

` + operationsText() + `
A service may follow with an @: send@ud, write@uc; RC is usual. A mix gives weights:
"inject mix write=3 read send@ud=0.5". A YAML file has the options by their long names, and
the mix as a list of operations, each with its size.

What comes back is looked at at the same rate: acknowledged PSNs, NAKs and RNR NAKs by code,
answers of READs, the time from a PSN to its acknowledgement, CNPs. The queue pairs at the
other end have to exist: this command connects to nobody. Numbers of queue pairs, PSNs, keys
and addresses are one for all (7), steps (0x11+1) or a list that repeats (5,9).

The same command line gives the same packets; another --seed gives others.`,
		Example: `  rocescope inject write -i eth1 --dst 10.9.0.2 --qpn 0x11 --rkey 0x1234 --va 0x7f0000000000
  rocescope inject write -s 4096 -m 1024 -q 8 -n 500 --src 10.9.0.1 --dst 10.9.0.2 -w out.pcapng
  rocescope inject send@ud -s 256 -i eth1 --dst 10.9.0.2 --rate 1Mpps -D 10
  rocescope inject read -s 1M -i eth1 --dst 10.9.0.2 --window 16384
  rocescope inject mix write=4 write-imm read=2 fetch-add -s 64-4096 -i eth1 --dst 10.9.0.2
  rocescope inject cnp -q 64 --rate 10kpps -i eth1 --dst 10.9.0.2 -D 5
  rocescope inject load.yaml --dry-run
  rocescope inject write -q 2 --sim ./obj_dir/Vcore --src 10.9.0.1 --dst 10.9.0.2`,
		Args:              arguments(1, 1<<16, "an operation, a mix, or a YAML file"),
		ValidArgsFunction: completeOperation,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.read(cmd, args); err != nil {
				return err
			}
			return a.inject(cmd.Context(), &o)
		},
	}
	o.add(cmd)
	return cmd
}

// operationsText lists the operations, as the help has them.
func operationsText() string {
	var b strings.Builder
	for _, o := range stream.Operations() {
		var on []string
		for _, t := range services {
			if o.On(t) {
				on = append(on, t.String())
			}
		}
		fmt.Fprintf(&b, "  %-10s %s (%s)\n", o.Name, o.About, strings.Join(on, ", "))
	}
	return b.String()
}

func completeOperation(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var all []string
	if len(args) == 0 {
		all = append(all, cobra.CompletionWithDesc("mix", "several operations by weight"))
	}
	if len(args) == 0 || args[0] == "mix" {
		for _, o := range stream.Operations() {
			all = append(all, cobra.CompletionWithDesc(o.Name, o.About))
		}
	}
	return all, cobra.ShellCompDirectiveDefault
}

// viaNames are the values of --via: the ways to send through an interface.
func viaNames() []string { return []string{port.ViaLive, port.ViaXDP, port.ViaPacket} }
