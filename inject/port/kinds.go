package port

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/internal/xsk"
)

// Names of the kinds, as Options.Via and Info.Via have them; ViaLive is one too.
const (
	ViaXDP    = "xdp"
	ViaPacket = "packet"
	ViaFile   = "pcap"
	ViaPipe   = "pipe"
	ViaMemory = "memory"
)

// Kind is a way for frames to get out, and for answers to get in.
type Kind struct {
	Name   string // as --via takes it
	What   string // what it is
	Good   string // what it is good for: why it is chosen where it can be
	Limits string // what it cannot do

	open func(Options) ([]Port, error) // nil: it is not opened by options alone
	// suits says why it cannot do what the options ask for on an interface; nil for kinds without one.
	suits func(*place, *Options) error
}

// kinds is what there is, the best first.
var kinds = []Kind{
	{
		Name: ViaLive, What: "the kernel's live-frame generator: our BPF program makes the frames in the driver",
		Good:   "no other way sends as fast through an interface without zero-copy",
		Limits: "the same messages again and again, in frames of a page less headers; no faults that need Go, and nothing received",
		suits:  suitsLive,
	},
	{
		Name: ViaXDP, What: "an AF_XDP socket on each queue",
		Good:   "frames need not be copied where the driver has zero-copy, and go around the kernel's stack in any case",
		Limits: "takes the queue and the RoCE traffic on it from everybody else; frames longer than a page need Linux 6.6",
		open:   func(o Options) ([]Port, error) { return listed(OpenXDP(o)) },
		suits:  suitsXDP,
	},
	{
		Name: ViaPacket, What: "AF_PACKET sockets",
		Good:   "it works on every interface and needs CAP_NET_RAW only",
		Limits: "a copy of each frame, and all of the kernel's work for it; a software RNIC on the same host sees what arrives, too",
		open:   func(o Options) ([]Port, error) { return alone(OpenPacket(o)) },
		suits:  suitsPacket,
	},
	{
		Name: ViaFile, What: "a pcapng file, or standard output",
		Good: "it needs no interface and no privilege", Limits: "nothing is sent, and nothing received",
		open: func(o Options) ([]Port, error) { return alone(OpenFile(o)) },
	},
	{
		Name: ViaPipe, What: "length-prefixed frames to and from a simulated core, by standard input and output or those of a command",
		Good: "time is the simulation's", Limits: "as fast as the simulation",
		open: func(o Options) ([]Port, error) { return alone(OpenPipe(o)) },
	},
	{
		Name: ViaMemory, What: "a pair of ports in this process",
		Good: "nothing is lost, and time may be driven", Limits: "both ends are in this process, for Go programs",
	},
}

// Kinds lists them, the best first.
func Kinds() []Kind { return slices.Clone(kinds) }

// Open opens the ports of the kind that the options ask for, or of the one that Choose finds.
func Open(o Options) ([]Port, Choice, error) {
	c, err := Choose(o)
	if err != nil {
		return nil, c, err
	}
	if c.open == nil {
		return nil, c, fmt.Errorf("port: %s: %w: Go programs open it by a function of its own", c.Name, ErrNotSupported)
	}
	ports, err := c.open(o)
	return ports, c, err
}

// Choice is a kind, and why it is that one.
type Choice struct {
	Kind
	Why string // one sentence
}

// Choose finds the best kind for what the options ask for.
func Choose(o Options) (Choice, error) {
	if o.Via != "" {
		return named(&o)
	}
	switch {
	case o.Interface != "":
		return choose(&o)
	case len(o.Command) > 0:
		return chosen(ViaPipe, "a simulation was named to talk to"), nil
	case o.File != "":
		return chosen(ViaFile, "a file was named and no interface"), nil
	}
	return Choice{}, errors.New("port: neither an interface was named to send on, nor a file to write to")
}

func chosen(name, why string) Choice {
	return Choice{kinds[slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })], name + ": " + why}
}

// named is the kind that was asked for, if it can do it.
func named(o *Options) (Choice, error) {
	at := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == o.Via })
	if at < 0 {
		var names []string
		for _, k := range kinds {
			names = append(names, k.Name)
		}
		return Choice{}, fmt.Errorf("port: there is no way to send called %q: there are %s", o.Via, strings.Join(names, ", "))
	}
	c := chosen(o.Via, "it was asked for")
	if c.suits == nil {
		return c, nil
	}
	p, err := visit(o)
	if err != nil {
		return c, err
	}
	return c, c.suits(p, o)
}

// choose takes the first kind that can do it.
func choose(o *Options) (Choice, error) {
	p, err := visit(o)
	if err != nil {
		return Choice{}, err
	}
	var refusals []string
	for _, k := range kinds {
		if k.suits == nil {
			continue
		}
		if err = k.suits(p, o); err == nil {
			why := k.Name + ": " + k.Good
			if len(refusals) > 0 {
				why += "; not " + strings.Join(refusals, "; not ")
			}
			return Choice{k, why}, nil
		}
		if k.Name != ViaLive || o.Repeats { // else nobody expects it
			refusals = append(refusals, k.Name+": "+reason(err))
		}
	}
	return Choice{}, err // of the kind that can most
}

// reason is an error as a part of a sentence.
func reason(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "port: "), "xsk: ")
}

// place is what is known of where frames are to be sent.
type place struct {
	link
	features xsk.Features
}

// visit finds out about the interface, and whether the frames fit in any case.
func visit(o *Options) (*place, error) {
	o.complete()
	l, err := findLink(o.Interface)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if o.MaxFrame, err = l.fits(o.MaxFrame); err != nil {
		return nil, err
	}
	f, err := xsk.Probe(o.Interface)
	if err != nil {
		return nil, err
	}
	return &place{link: link{name: l.name, mtu: l.mtu, kind: l.kind, lo: l.lo}, features: f}, nil
}

// lacks is the error of missing capabilities, of those that a kind needs.
func (p *place) lacks(need ...string) error {
	var missing []string
	for _, c := range need {
		if slices.Contains(p.features.Missing, c) {
			missing = append(missing, c)
		}
	}
	if missing == nil {
		return nil
	}
	return failed(p.name, "open", fmt.Errorf("%w: needs %s", ErrPrivilege, strings.Join(missing, ", ")), setcap)
}

// refusal is a feature's error, if it is one: what is only known by trying may be tried.
func refusal(err error) error {
	if errors.Is(err, xsk.ErrUnknown) {
		return nil
	}
	return err
}

func suitsLive(p *place, o *Options) error {
	switch {
	case !o.Repeats:
		return failed(p.name, "make frames in the kernel", fmt.Errorf("%w for this traffic", ErrNotSupported), "it can only repeat messages, without faults")
	case p.lo:
		return failed(p.name, "make frames in the kernel", fmt.Errorf("%w on loopback", ErrNotSupported), "")
	case refusal(p.features.ZeroCopy) == nil && o.Via == "":
		return failed(p.name, "make frames in the kernel", errors.New("its driver may have zero-copy, which is as fast"), "")
	}
	if err := p.lacks("CAP_BPF", "CAP_NET_ADMIN"); err != nil {
		return err
	}
	if err := refusal(p.features.Redirect); err != nil {
		return err
	}
	limit, err := xsk.MaxLiveFrame()
	if err != nil {
		return err
	}
	if o.MaxFrame > limit {
		return failed(p.name, "make frames in the kernel", fmt.Errorf("%d bytes: %w: live frames have at most %d", o.MaxFrame, ErrFrameSize, limit), "")
	}
	return nil
}

func suitsXDP(p *place, o *Options) error {
	need := []string{"CAP_NET_RAW"}
	if !o.SendOnly {
		need = append(need, "CAP_NET_ADMIN", "CAP_BPF")
	}
	if err := p.lacks(need...); err != nil {
		return err
	}
	if err := refusal(p.features.AFXDP); err != nil {
		return err
	}
	if p.lo {
		return failed(p.name, "open an AF_XDP socket", fmt.Errorf("%w on loopback", ErrNotSupported), "")
	}
	if o.MaxFrame > xdpChunk {
		if err := refusal(p.features.MultiBuffer); err != nil {
			return err
		}
	}
	if o.SendOnly {
		return nil
	}
	if id := p.features.ProgramID; id != 0 {
		return failed(p.name, "attach an XDP program", fmt.Errorf("%w: program %d is attached", ErrBusy, id), "ip link set "+p.name+" xdp off removes it if it has no link")
	}
	if native, generic := refusal(p.features.Native), refusal(p.features.Generic); native != nil && generic != nil {
		return native
	}
	return nil
}

func suitsPacket(p *place, _ *Options) error { return p.lacks("CAP_NET_RAW") }

// listed gives ports of one kind as ports.
func listed[P Port](ports []P, err error) ([]Port, error) {
	if err != nil {
		return nil, err
	}
	all := make([]Port, len(ports))
	for i, p := range ports {
		all[i] = p
	}
	return all, nil
}

// alone gives one port as a list.
func alone[P Port](p P, err error) ([]Port, error) {
	if err != nil {
		return nil, err
	}
	return []Port{p}, nil
}
