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
	return &cobra.Command{
		Use:   "doctor [IFACE]",
		Short: "Say what this machine and an interface can do, and why a capture may be empty",
		Long: `Say what this machine, its kernel and an interface can do for capturing, and what would
not be seen on it. Each line is good (✓), worth knowing (!) or missing (✗), and where
something can be done about it, says what. Nothing is changed.

The exit code is 5 if something is missing without which nothing can be captured.`,
		Example: `  rocescope doctor
  rocescope doctor eth1`,
		Args: arguments(0, 1, "one interface's name"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return completeInterface(cmd, args, begun)
		},
		RunE: func(_ *cobra.Command, args []string) error {
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

// iface looks at one interface.
func (d *diagnosis) iface(name string) error {
	all, err := captures.LiveInterfaces()
	if err != nil {
		return errUnavailable("%w", &plainError{err})
	}
	at := slices.IndexFunc(all, func(i captures.LiveInterface) bool { return i.Name == name })
	if at < 0 {
		return errUnavailable("%s: no such interface; %s", name, suggestInterface(name))
	}
	i := &all[at]
	if i.Up {
		d.add(markGood, "interface", strings.Join(aboutInterface(i), ", "), "")
	} else {
		d.add(markMissing, "interface", strings.Join(aboutInterface(i), ", "), "sudo ip link set "+name+" up")
	}
	d.mtu(i)
	d.rdma(i)
	d.clock(i)
	f, err := xsk.Probe(name)
	if err != nil {
		d.add(markNote, "engine xdp", strings.TrimPrefix(err.Error(), "xsk: "), "")
		return nil
	}
	d.queues(i, &f)
	d.xdp(i, &f)
	return nil
}

// roceOverhead is what an IPv6 RoCE v2 packet has beside its payload: IPv6, UDP, BTH, RETH, immediate data, ICRC.
const roceOverhead = 40 + 8 + 12 + 16 + 4 + 4

// mtu compares the interface's MTU with RoCE's.
func (d *diagnosis) mtu(i *captures.LiveInterface) {
	largest := 0
	for mtu := 256; mtu <= 4096; mtu *= 2 {
		if i.MTU >= mtu+roceOverhead {
			largest = mtu
		}
	}
	switch {
	case largest == 4096:
		d.add(markGood, "MTU", fmt.Sprintf("%d: packets of every RoCE MTU fit", i.MTU), "")
	case largest == 0:
		d.add(markMissing, "MTU", fmt.Sprintf("%d: no packet of any RoCE MTU fits", i.MTU), fmt.Sprintf("sudo ip link set %s mtu 4200", i.Name))
	default:
		d.add(markNote, "MTU", fmt.Sprintf("%d: packets up to RoCE MTU %d fit; larger ones are dropped by the card or its driver, and not seen", i.MTU, largest),
			fmt.Sprintf("sudo ip link set %s mtu 4200", i.Name))
	}
}

// rdma says whether a card does RDMA past the kernel.
func (d *diagnosis) rdma(i *captures.LiveInterface) {
	devices := rdmaDevices(i.Name)
	soft := slices.ContainsFunc(devices, isSoftRDMA)
	switch {
	case len(devices) == 0 && slices.Contains(rdmaDrivers, i.Driver):
		d.add(markNote, "RDMA", i.Driver+" belongs to cards that can do RDMA; its RDMA device is not there, so RoCE reaches the kernel", "")
	case len(devices) == 0:
		d.add(markGood, "RDMA", "no RDMA device is bound to this interface: RoCE packets that reach it are seen", "")
	case soft:
		d.add(markGood, "RDMA", strings.Join(devices, ", ")+" is software: all of its packets are seen", "")
	default:
		next := fmt.Sprintf("tcpdump -i %s -U -w - | rocescope -   (where libpcap can), or capture on a mirror port of the switch", devices[0])
		d.add(markNote, "RDMA", fmt.Sprintf("%s: this card takes RoCE to and from this host past the kernel, so that it is NOT seen here", strings.Join(devices, ", ")), next)
	}
}

// rdmaDrivers are drivers whose cards can do RoCE or iWARP.
var rdmaDrivers = []string{"mlx4_en", "mlx5_core", "bnxt_en", "ice", "i40e", "qede", "hns3", "cxgb4", "ionic", "mana", "be2net", "ocrdma"}

// clock says whose times there are.
func (d *diagnosis) clock(i *captures.LiveInterface) {
	switch offered, phc := hardwareTimes(i.Name); {
	case offered:
		d.add(markGood, "times", fmt.Sprintf("by the host's clock; the card has one too (PTP clock %d)", phc), "rocescope capture --time-stamp-type adapter")
	default:
		d.add(markGood, "times", "by the host's clock, when the kernel gets a packet; the card offers none", "")
	}
}

// queues says over how many queues traffic comes.
func (d *diagnosis) queues(i *captures.LiveInterface, f *xsk.Features) {
	switch {
	case f.Queues.RX == 0:
		d.add(markGood, "queues", "the driver does not say how many; the engine packet sees all of them", "")
	default:
		d.add(markGood, "queues", fmt.Sprintf("%d to receive, %d to send; both engines see all of them", f.Queues.RX, f.Queues.TX), "")
	}
}

// xdp says what the engine xdp would do here.
func (d *diagnosis) xdp(i *captures.LiveInterface, f *xsk.Features) {
	if f.AFXDP != nil {
		d.add(markNote, "engine xdp", f.AFXDP.Error(), "")
		return
	}
	mode := "native"
	if f.Native != nil {
		mode = "generic (slow: " + f.Native.Error() + ")"
	}
	copies := "copy mode: " + fmt.Sprint(f.ZeroCopy)
	if f.ZeroCopy == nil {
		copies = "zero-copy"
	}
	m, next := markGood, ""
	how := mode + ", " + copies
	switch {
	case f.ProgramID != 0:
		m, how, next = markNote, fmt.Sprintf("another XDP program (id %d) is attached: %s", f.ProgramID, how), "bpftool net detach xdp dev "+i.Name
	case f.MultiBuffer != nil && i.MTU > f.SingleBufferMTU:
		m, how = markNote, how+"; "+f.MultiBuffer.Error()
	case f.RxVLANStripped:
		m, how, next = markNote, how+"; VLAN tags are lost, as the card strips them", fmt.Sprintf("sudo ethtool -K %s rxvlan off", i.Name)
	}
	d.add(m, "engine xdp", how, next)
}
