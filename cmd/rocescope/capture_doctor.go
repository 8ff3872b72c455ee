package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/xsk"
)

func newDoctorCommand(a *app) *cobra.Command {
	var nics bool
	cmd := &cobra.Command{
		Use:   "doctor [IFACE]",
		Short: "Say what this machine and an interface can do, and why a capture may be empty",
		Long: `Say what this machine, its kernel and an interface can do for capturing and sending, and
what would not be seen on it. Each line is good (✓), worth knowing (!) or missing (✗), and
where something can be done about it, says what. Nothing is changed.

The exit code is 5 if something is missing without which nothing can be captured.`,
		Example: `  rocescope doctor
  rocescope doctor eth1`,
		Args: arguments(0, 1, "one interface's name"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return completeInterface(cmd, args, begun)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if nics {
				return writeNICs(a.stdout)
			}
			d := &diagnosis{}
			d.machine()
			if len(args) == 0 {
				d.interfaces()
			} else if err := d.iface(args[0]); err != nil {
				return err
			}
			return a.printDiagnosis(d)
		},
	}
	cmd.Flags().BoolVar(&nics, "nics", false, "print what is known of the families of network cards, as Markdown")
	return cmd
}

// mark is how a thing stands.
type mark int

const (
	markGood mark = iota
	markNote
	markMissing
)

// symptom is a line: what was looked at, how it stands, and one thing to do about it.
type symptom struct {
	mark      mark
	what, how string
	next      string
}

// diagnosis is what the doctor found.
type diagnosis struct{ all []symptom }

func (d *diagnosis) add(m mark, what, how, next string) {
	d.all = append(d.all, symptom{m, what, how, next})
}

// printDiagnosis prints the lines. A missing thing is an error.
func (a *app) printDiagnosis(d *diagnosis) error {
	style, signs := a.styles(), [...]string{"✓", "!", "✗"}
	if !speaksUTF8() {
		signs = [...]string{"ok", "! ", "no"}
	}
	width, missing := 0, uint64(0)
	for _, s := range d.all {
		width = max(width, len([]rune(s.what)))
	}
	for _, s := range d.all {
		sign := signs[s.mark]
		switch s.mark {
		case markGood:
			sign = style.paint("32", sign)
		case markNote:
			sign = style.warning(sign)
		case markMissing:
			sign = style.bad(sign)
			missing++
		}
		indent := strings.Repeat(" ", width+len([]rune(signs[0]))+3)
		text := wrap(s.how, 96, indent)
		fmt.Fprintf(a.stdout, "%s %-*s  %s\n", sign, width, s.what, strings.TrimPrefix(text, indent))
		if s.next != "" {
			fmt.Fprintf(a.stdout, "%s%s\n", indent, style.bold("→ "[:len("→ ")*boolInt(speaksUTF8())]+s.next))
		}
	}
	if missing > 0 {
		return errUnavailable("%s missing to capture here", report.Plural(missing, "thing")+map[bool]string{true: " is", false: " are"}[missing == 1])
	}
	return nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// speaksUTF8 says whether the locale has more than ASCII.
func speaksUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(os.Getenv(name)); v != "" {
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return false
}

// machine looks at what all interfaces have in common.
func (d *diagnosis) machine() {
	kernel := kernelRelease()
	d.add(markGood, "kernel", kernel+": "+kernelOffers(), "")
	have := effectiveCapabilities()
	lacks := func(names ...string) (list []string) {
		for _, n := range names {
			if !slices.Contains(have, n) {
				list = append(list, n)
			}
		}
		return list
	}
	switch packet, xdp := lacks("CAP_NET_RAW"), lacks("CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"); {
	case len(packet) > 0:
		d.add(markMissing, "privileges", "capturing needs "+strings.Join(packet, ", "), setcap(captureCapabilities))
	case len(xdp) > 0:
		d.add(markNote, "privileges", "enough for the engine packet; the engine xdp needs "+strings.Join(xdp, ", ")+" too", setcap(xdpCapabilities))
	default:
		d.add(markGood, "privileges", "enough for both engines; they are given up when a capture has begun", "")
	}
	if v := landlockVersion(); v > 0 {
		d.add(markGood, "Landlock", fmt.Sprintf("version %d: a capture under way can reach no file but those that it writes", v), "")
	} else {
		d.add(markNote, "Landlock", "this kernel has none (5.13 brought it, where it is switched on): a capture under way keeps the reach of its user to files", "")
	}
	if haveSeccomp() {
		d.add(markGood, "seccomp", "who reads files can make no socket and run no program; who has sockets open runs no program", "")
	} else {
		d.add(markNote, "seccomp", "this kernel has no filters for system calls, or not for this processor: commands under way keep all that their user may do", "")
	}
}

// kernelOffers is what the kernel can do beyond the ring that all have.
func kernelOffers() string {
	offers := []string{"TPACKET_V3 ring"}
	for _, f := range []struct {
		name string
		err  error
	}{{"AF_XDP multi-buffer", xsk.HaveMultiBuffer()}, {"XDP programs for large frames", xsk.HaveFrags()}, {"AF_XDP transmit budget", xsk.HaveTxBudget()}} {
		switch {
		case f.err == nil:
			offers = append(offers, f.name)
		case errors.Is(f.err, xsk.ErrNotSupported):
			offers = append(offers, "no "+f.name)
		}
	}
	return strings.Join(offers, ", ")
}

// interfaces is a line for each.
func (d *diagnosis) interfaces() {
	all, err := captures.LiveInterfaces()
	if err != nil {
		d.add(markMissing, "interfaces", (&plainError{err}).Error(), "")
		return
	}
	for i := range all {
		m := markGood
		if !all[i].Up {
			m = markNote
		}
		how := strings.Join(aboutInterface(&all[i]), ", ")
		if rdma := rdmaDevices(all[i].Name); len(rdma) > 0 {
			m, how = markNote, how+"; RDMA device "+strings.Join(rdma, ", ")
		}
		d.add(m, all[i].Name, how, "")
	}
	d.add(markNote, "next", "one interface says more", "rocescope doctor IFACE")
}
