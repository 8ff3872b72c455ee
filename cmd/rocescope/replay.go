package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/replay"
	"github.com/rocescope/rocescope/internal/report"
)

// replayOptions are the options of `rocescope replay`.
type replayOptions struct {
	hostOptions
	target, hand, memory string
	qp                   uint32
	cm, keep, json       bool
	faults               faultOptions
	seed                 uint64
	to                   connect.Parameters
	where                connect.Memory
}

func newReplayCommand(a *app) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay FILE --target PEER",
		Short: "Ask a live target what a captured queue pair was asked, packet for packet",
		Long: `Play the requester's side of a captured RC queue pair on a live connection: the same packets,
with the connection's QPN, PSN, rkey, addresses and ICRC, each as soon as as much was
acknowledged as in the capture. What is lost is sent again. Answers are compared with those of
the capture: READ data, the values of atomics, refusals. Memory is first made what the answers
say that it held.

The target is "rocescope serve", with --cm anybody who is connected by CM (rdma_cm), or with
--hand a core that is set up through registers. The exit code is 3 where answers differ.`,
		Example: `  sudo rocescope replay field.pcapng --target 10.9.0.2
  sudo rocescope replay field.pcapng --target 10.9.0.2 --qp 0x000011
  sudo rocescope replay field.pcapng --target 10.9.0.2 --cm --memory rkey=0x1234,va=0x7f0000000000,length=65536
  sudo rocescope replay field.pcapng --target 10.9.0.2 --hand qpn=0x11,psn=0,rkey=0x1234,va=0x7f0000000000`,
		Args: arguments(1, 1, "a capture"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd.Flags().Changed("seed")); err != nil {
				return err
			}
			return a.replay(cmd.Context(), args[0], &o)
		},
	}
	o.add(cmd, "the `interface` to send through (default: the one that the kernel takes)")
	f := cmd.Flags()
	f.StringVar(&o.target, "target", "", "the `peer` that is asked")
	f.Var((*qpnFlag)(&o.qp), "qp", "the `QPN` that is asked in the capture (default: the only one)")
	f.BoolVarP(&o.cm, "cm", "R", false, "connect by CM (rdma_cm)")
	f.StringVar(&o.hand, "hand", "", "the target's `numbers`: qpn=0x11,psn=0,rkey=0x1234,va=0x7f0000000000,length=65536")
	f.StringVar(&o.memory, "memory", "", "the target's `memory`, where CM does not tell it: rkey=0x1234,va=0x7f0000000000,length=65536")
	f.BoolVar(&o.keep, "keep-memory", false, "leave the target's memory as it is")
	o.faults.add(f)
	f.Uint64Var(&o.seed, "seed", 1, "`number` that all that is random in faults comes from")
	f.BoolVar(&o.json, "json", false, "the result as JSON")
	_ = f.MarkHidden("connection") // its connection is RC
	return cmd
}

// qpnFlag is a QPN, decimal or hexadecimal.
type qpnFlag uint32

func (q *qpnFlag) String() string {
	if *q == 0 {
		return ""
	}
	return fmt.Sprintf("%#06x", uint32(*q))
}

func (q *qpnFlag) Type() string { return "QPN" }

func (q *qpnFlag) Set(text string) error {
	p, err := connect.ParseParameters("qpn="+text, connect.Parameters{Transport: dissect.RC})
	*q = qpnFlag(p.QPN)
	return err
}

// check finds what cannot be meant.
func (o *replayOptions) check(seeded bool) error {
	if err := o.read(); err != nil {
		return err
	}
	switch {
	case o.target == "":
		return errUsage("replay needs a target: --target PEER")
	case o.transport != dissect.RC:
		return errUsage("replay is for RC: leave -c out")
	case o.hand != "" && (o.memory != "" || o.cm):
		return errUsage("--hand tells how to connect, and the memory as well: leave --cm and --memory out")
	}
	base := connect.Parameters{Transport: dissect.RC}
	var err error
	if o.hand != "" {
		if o.to, err = connect.ParseParameters(o.hand, base); err != nil {
			return errUsage("--hand: %w", err)
		}
	}
	if o.memory != "" {
		p, err := connect.ParseParameters("qpn=2,"+o.memory, base) // any queue pair will do
		if err != nil {
			return errUsage("--memory: %w", err)
		}
		o.where = p.Memory
	}
	o.host.Rules, err = o.faults.read(o.seed, seeded)
	return err
}

// replay runs `rocescope replay`.
func (a *app) replay(ctx context.Context, file string, o *replayOptions) error {
	c, err := readConversation(file, o.qp)
	if err != nil {
		return err
	}
	if c.Missing != nil {
		return errInput("%s: %w", file, c.Missing)
	}
	to, err := o.reach(ctx, o.target)
	if err != nil {
		return err
	}
	if o.cm {
		o.host.Device.FirstQPN = peer.AnyQPN()
	}
	h, err := openHost(o.host)
	if err != nil {
		return err
	}
	defer h.Close()
	q := peer.Request{Way: peer.ByExchange, Peer: to, Local: connect.Parameters{Transport: dissect.RC, MTU: o.mtu}}
	switch {
	case o.hand != "":
		if !o.to.Address.IsValid() {
			o.to.Address = to.Addr()
		}
		q.Way, q.Hand = peer.ByHand, []connect.Parameters{o.to}
	case o.cm:
		q.Way = peer.ByCM
	}
	if !o.json {
		fmt.Fprintf(a.stderr, "%s to QP %#06x at %v, to %v from %s\n", report.Plural(uint64(len(c.Fresh)), "request"), c.ResponderQPN, c.Responder, to, where(h))
	}
	res, err := replay.Run(ctx, h, c, replay.Options{Request: q, Memory: o.where, Empty: o.keep})
	counts, _ := h.Faults()
	if res != nil {
		if perr := a.printReplay(o, res, ruled(o.host.Rules, counts)); err == nil {
			err = perr
		}
	}
	switch {
	case refusedConnection(err):
		return fmt.Errorf("%v: nobody listens there: start \"rocescope serve\" at the other end first (-p is its port; --cm connects to others)", to)
	case err != nil:
		return peerError(err, o.iface)
	case res.Differing > 0:
		return errJudged("%d of %d answers are not what the capture has", res.Differing, res.Answers)
	}
	return nil
}

// readConversation reads what a queue pair of a capture was asked.
func readConversation(file string, qpn uint32) (*replay.Conversation, error) {
	src, err := captures.Open(file)
	if err != nil {
		return nil, errInput("%w", err)
	}
	defer src.Close()
	c, err := replay.Read(src, qpn)
	switch {
	case errors.Is(err, replay.ErrMany):
		return nil, errUsage("%s: %w; --qp chooses", file, err)
	case err != nil:
		return nil, errInput("%s: %w", file, err)
	}
	return c, nil
}

// replayDocument is the result as JSON, schema rocescope.replay/1.
type replayDocument struct {
	Schema string `json:"schema"`
	*replay.Result
}

func (a *app) printReplay(o *replayOptions, r *replay.Result, faults string) error {
	if o.json {
		return a.printJSON(replayDocument{"rocescope.replay/1", r})
	}
	var b strings.Builder
	row := func(n uint64, what string) { fmt.Fprintf(&b, "%14s  %s\n", report.Count(n), what) }
	row(uint64(r.Requests), "requests sent, "+report.Bytes(r.Bytes)+" of data")
	row(uint64(r.SentAgain), "packets sent again")
	row(uint64(r.Answers), "answers")
	row(uint64(r.Differing), "that are not what the capture has")
	fmt.Fprintf(&b, "%14s  taken\n", report.Duration(r.Took))
	b.WriteString(faults)
	for _, p := range r.Regions {
		fmt.Fprintf(&b, "memory 0x%x of rkey 0x%x (%s) is at 0x%x\n", p.VA, p.RKey, report.Bytes(uint64(p.Length)), p.At)
	}
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "frame %d, PSN 0x%06x: %s is %s, in the capture %s\n", d.Frame, uint32(d.PSN), d.What, d.Live, d.Captured)
	}
	_, err := a.stdout.Write([]byte(b.String()))
	return err
}
