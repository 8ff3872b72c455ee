package main

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/xsk"
)

// patient is the interface that the doctor looks at.
type patient struct {
	*captures.LiveInterface
	card  card
	rdma  []string // devices bound to it
	hard  bool     // one of them is the card's
	cores int
}

// card is what a driver says of its interface. Nothing of it is changed.
type card struct {
	bus                    string // address there, "" for virtual ones
	speed                  uint32 // Mbit/s; 0 where nobody knows
	rx, maxRX, combined    uint32 // channels: to receive, at most, and how many of them also send
	ring, maxRing          uint32 // descriptors of each queue to receive; 0 where the driver does not say
	hashKnown, hashPorts   bool   // whether the ports of UDP over IPv4 are in the hash that chooses the queue
	rules                  uint32 // that steer flows
	rxVLAN, lro            bool   // the card takes VLAN tags out, joins TCP packets
	pauseKnown, swallowing bool   // whether it obeys pause frames
	roceKnown, roce        bool   // devlink's enable_roce
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
	p := &patient{LiveInterface: &all[at], card: askCard(name), rdma: rdmaDevices(name), cores: runtime.NumCPU()}
	p.hard = slices.ContainsFunc(p.rdma, func(device string) bool { return !isSoftRDMA(device) })
	if p.Up {
		d.add(markGood, "interface", strings.Join(aboutInterface(p.LiveInterface), ", "), "")
	} else {
		d.add(markMissing, "interface", strings.Join(aboutInterface(p.LiveInterface), ", "), "sudo ip link set "+name+" up")
	}
	d.mtu(p)
	d.rdmaCard(p)
	d.seen(p)
	d.queues(p)
	d.cardRing(p)
	d.clock(p)
	f, err := xsk.Probe(name)
	if err != nil {
		d.add(markNote, "engine xdp", strings.TrimPrefix(err.Error(), "xsk: "), "")
	} else {
		d.xdp(p, &f)
	}
	d.rate(p, err == nil && f.ZeroCopy == nil)
	if nic := nicOf(p.Driver); nic != nil {
		for _, fact := range nic.facts {
			if !fact.found {
				d.add(markNote, p.Driver, fact.text, "")
			}
		}
	}
	return nil
}

// roceOverhead is what an IPv6 RoCE v2 packet has beside its payload: IPv6, UDP, BTH, RETH, immediate data, ICRC.
const roceOverhead = 40 + 8 + 12 + 16 + 4 + 4

// roceMTU is the largest RoCE MTU whose packets fit, 0 if none does.
func roceMTU(mtu int) (largest int) {
	for roce := 256; roce <= 4096; roce *= 2 {
		if mtu >= roce+roceOverhead {
			largest = roce
		}
	}
	return largest
}

// mtu compares the interface's MTU with RoCE's.
func (d *diagnosis) mtu(p *patient) {
	next := fmt.Sprintf("sudo ip link set %s mtu 4200", p.Name)
	switch largest := roceMTU(p.MTU); largest {
	case 4096:
		d.add(markGood, "MTU", fmt.Sprintf("%d: packets of every RoCE MTU fit", p.MTU), "")
	case 0:
		d.add(markMissing, "MTU", fmt.Sprintf("%d: no packet of any RoCE MTU fits", p.MTU), next)
	default:
		d.add(markNote, "MTU", fmt.Sprintf("%d: packets up to RoCE MTU %d fit; larger ones are dropped by the card or its driver, and not seen", p.MTU, largest), next)
	}
}

// rdmaCard says whether a card does RDMA past the kernel, and how to keep it from that.
func (d *diagnosis) rdmaCard(p *patient) {
	nic := nicOf(p.Driver)
	switch {
	case !p.hard && p.card.roceKnown && !p.card.roce:
		next := ""
		if nic != nil && nic.roce != "" {
			next = fmt.Sprintf(nic.roce, p.card.bus) + "   (to have RDMA again)"
		}
		d.add(markGood, "RDMA", "the card could do RoCE, which is switched off: RoCE packets reach the kernel", next)
	case len(p.rdma) == 0 && slices.Contains(rdmaDrivers, p.Driver):
		d.add(markNote, "RDMA", p.Driver+" belongs to cards that can do RDMA; its RDMA device is not there, so RoCE reaches the kernel", "")
	case len(p.rdma) == 0:
		d.add(markGood, "RDMA", "no RDMA device is bound to this interface: RoCE packets that reach it are seen", "")
	case !p.hard:
		d.add(markGood, "RDMA", strings.Join(p.rdma, ", ")+" is software: all of its packets are seen", "")
	default:
		how := fmt.Sprintf("%s: this card takes RoCE (UDP 4791) to and from this host past the kernel, so that it is NOT seen here", strings.Join(p.rdma, ", "))
		d.add(markNote, "RDMA", how, fmt.Sprintf("tcpdump -i %s -U -w - | rocescope -   (where libpcap can), or capture on a mirror port of the switch", p.rdma[0]))
		if nic != nil && nic.noRoCE != "" && p.card.bus != "" {
			d.add(markNote, "RDMA", "or switch the card's RoCE off, on a card that only listens or injects; this host then has no RDMA there",
				fmt.Sprintf(nic.noRoCE, p.card.bus))
			d.add(markNote, "RDMA", "and on again afterwards", fmt.Sprintf(nic.roce, p.card.bus))
		}
	}
}

// rdmaDrivers are drivers whose cards can do RoCE or iWARP.
var rdmaDrivers = []string{"mlx4_en", "mlx5_core", "bnxt_en", "ice", "i40e", "qede", "hns3", "cxgb4", "ionic", "mana", "be2net", "ocrdma"}

// seen says what a capture here would have, and what not.
func (d *diagnosis) seen(p *patient) {
	m, yes, no := markGood, []string{}, []string{}
	switch {
	case p.Loopback:
		yes = append(yes, "each packet once, as it is received")
	case p.hard:
		m = markNote
		yes = append(yes, "what a mirror port sends here, as far as the card leaves it to the kernel; TCP of this host")
		no = append(no, "RoCE that this host's RDMA sends and receives")
	default:
		yes = append(yes, "RoCE that arrives here, for this host or (in promiscuous mode) for others, and with the engine packet what this host's kernel sends")
	}
	if p.card.pauseKnown && p.card.swallowing {
		no = append(no, "pause frames, which the card obeys and keeps")
	}
	if p.Kind == "vlan" {
		no = append(no, "this VLAN's tag; capture on the interface below for that")
	}
	no = append(no, fmt.Sprintf("frames of more than %s bytes", report.Count(uint64(p.MTU+14))))
	d.add(m, "seen", strings.Join(yes, "; ")+". Not seen: "+strings.Join(no, "; "), "")
}

// queues says over how many queues traffic comes, and how it is spread.
func (d *diagnosis) queues(p *patient) {
	c := &p.card
	if c.rx == 0 {
		d.add(markGood, "queues", "the driver does not say how many; the engine packet sees all of them", "")
		return
	}
	rings := min(int(c.rx), p.cores, 8)
	how := fmt.Sprintf("%d to receive, of %d that there may be; both engines see all of them, packet with %s, xdp with %s", c.rx, max(c.rx, c.maxRX),
		report.Plural(uint64(rings), "ring"), report.Plural(uint64(c.rx), "thread"))
	kind := "combined"
	if c.combined == 0 {
		kind = "rx"
	}
	switch {
	case int(c.rx) > p.cores:
		d.add(markNote, "queues", fmt.Sprintf("%s; this machine has %s", how, report.Plural(uint64(p.cores), "core")),
			fmt.Sprintf("sudo ethtool -L %s %s %d   (to undo: %d)", p.Name, kind, p.cores, c.rx))
	default:
		d.add(markGood, "queues", how, "")
	}
	switch {
	case c.rx < 2 || !c.hashKnown:
	case c.hashPorts:
		d.add(markGood, "spreading", "by addresses and UDP ports: queue pairs of two hosts are in different queues, as far as their source ports are", "")
	default:
		d.add(markNote, "spreading", "by addresses alone: all that two hosts say to each other is in one queue, and is one core's work",
			fmt.Sprintf("sudo ethtool -N %s rx-flow-hash udp4 sdfn   (to undo: sd)", p.Name))
	}
	if c.rules > 0 {
		d.add(markNote, "flow rules", report.Plural(uint64(c.rules), "rule")+" for flows, which go to queues of its choice, or nowhere", "ethtool -n "+p.Name)
	}
}

// cardRing compares the card's own ring with what it could be.
func (d *diagnosis) cardRing(p *patient) {
	switch c := &p.card; {
	case c.ring == 0 || c.maxRing == 0:
	case c.ring < c.maxRing:
		d.add(markNote, "card's ring", fmt.Sprintf("%s of %s descriptors for each queue: the card drops what finds it full (rx_missed)", report.Count(uint64(c.ring)), report.Count(uint64(c.maxRing))),
			fmt.Sprintf("sudo ethtool -G %s rx %d   (to undo: %d)", p.Name, c.maxRing, c.ring))
	default:
		d.add(markGood, "card's ring", fmt.Sprintf("%s descriptors for each queue, as many as there may be", report.Count(uint64(c.ring))), "")
	}
}

// clock says whose times there are.
func (d *diagnosis) clock(p *patient) {
	switch offered, phc := hardwareTimes(p.Name); {
	case offered:
		d.add(markGood, "times", fmt.Sprintf("by the host's clock; the card has one too (PTP clock %d), for the engine packet", phc), "rocescope capture --time-stamp-type adapter")
	default:
		d.add(markGood, "times", "by the host's clock, when the kernel gets a packet; the card offers none", "")
	}
}

// xdp says what the engine xdp would do here.
func (d *diagnosis) xdp(p *patient, f *xsk.Features) {
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
	how := mode + ", " + copies
	if f.ProgramID != 0 {
		d.add(markNote, "engine xdp", fmt.Sprintf("another XDP program (id %d) is attached: %s", f.ProgramID, how), "bpftool net detach xdp dev "+p.Name)
	} else {
		d.add(markGood, "engine xdp", how, "")
	}
	if f.HugePages == nil {
		d.add(markGood, "huge pages", fmt.Sprintf("%d are free; capturing does without them", f.HugePagesFree), "")
	} else {
		d.add(markGood, "huge pages", "none is free; capturing does without them, and sending by AF_XDP may use them", "sudo sysctl vm.nr_hugepages=64   (to undo: 0)")
	}
	if f.MultiBuffer != nil && p.MTU > f.SingleBufferMTU {
		d.add(markNote, "engine xdp", f.MultiBuffer.Error(), "")
	}
	if p.card.rxVLAN {
		d.add(markNote, "VLAN tags", "the card takes them out, and the engine xdp has frames without them; the engine packet puts them back",
			fmt.Sprintf("sudo ethtool -K %s rxvlan off   (to undo: on)", p.Name))
	}
	if p.card.lro {
		d.add(markNote, "LRO", "the card joins TCP packets, and many drivers take no XDP program meanwhile", fmt.Sprintf("sudo ethtool -K %s lro off   (to undo: on)", p.Name))
	}
}

// What a core takes of packets, in millions a second: the first two as measured on a small virtual machine, the last as
// published of several cards. They say which order to expect, not more.
const (
	packetRate   = 1
	copyRate     = 2
	zeroCopyRate = 10
)

// rate compares what a link carries with what cores can take.
func (d *diagnosis) rate(p *patient, zeroCopy bool) {
	queues := min(max(1, int(p.card.rx)), p.cores)
	perCore, by := copyRate, "xdp by copying"
	if zeroCopy {
		perCore, by = zeroCopyRate, "xdp by zero-copy"
	}
	how := fmt.Sprintf("%s and %s: about %d million packets/s by the engine packet, %d by %s", report.Plural(uint64(p.cores), "core"),
		report.Plural(uint64(max(1, p.card.rx)), "queue"), queues*packetRate, queues*perCore, by)
	if p.card.speed == 0 {
		d.add(markGood, "rate", how+" (orders of magnitude; nobody knows the link's speed)", "")
		return
	}
	const framing = 14 + 20 + 8 + 12 + 4 + 24 // Ethernet, IPv4, UDP, BTH, ICRC; FCS, preamble and gap
	mtu := cmp.Or(roceMTU(p.MTU), 256)
	carries := func(payload int) float64 { return float64(p.card.speed) / 8 / float64(payload+framing) }
	m := markGood
	if carries(mtu) > float64(queues*perCore) {
		m = markNote
	}
	d.add(m, "rate", fmt.Sprintf("%s (orders of magnitude). The link of %s carries %.1f million packets/s of RoCE MTU %d, and %.0f of 64 bytes' payload",
		how, report.BitRate(float64(p.card.speed)*1e6), carries(mtu), mtu, carries(64)), "")
}
