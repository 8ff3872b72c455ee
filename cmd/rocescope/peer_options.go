package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/inject/route"
	"github.com/rocescope/rocescope/inject/stream"
)

// hostOptions are the options of commands that take part: where they are on the wire.
type hostOptions struct {
	iface, via  string
	addrs       []string
	mac, router string
	vlan        int
	service     string
	mtu         int
	port        uint16
	threads     int

	transport dissect.Transport
	host      peer.Options
}

func (o *hostOptions) add(cmd *cobra.Command, iface string) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.iface, "interface", "i", "", iface)
	f.StringVarP(&o.service, "connection", "c", "RC", "the `service`: RC, UC or UD")
	f.IntVarP(&o.mtu, "mtu", "m", 0, "the largest path MTU in `bytes`: 256, 512, 1024, 2048 or 4096")
	f.Uint16VarP(&o.port, "port", "p", 18515, "TCP `port`, and with CM rdma_cm's")
	f.StringSliceVar(&o.addrs, "address", nil, "own `addresses` that the kernel does not have (default: the interface's)")
	f.StringVar(&o.mac, "mac", "", "own MAC `address` (default: the interface's)")
	f.StringVar(&o.router, "router", "", "the router's `address`, where an own address is to reach others than neighbours")
	f.IntVar(&o.vlan, "vlan", 0, "VLAN `ID` of own addresses")
	f.StringVar(&o.via, "via", "", "`how` frames leave and arrive: xdp or packet (default: the best that can)")
	_ = cmd.RegisterFlagCompletionFunc("interface", completeInterface)
	for name, values := range map[string][]string{
		"via": peerVia, "connection": {"RC", "UC", "UD"}, "mtu": {"256", "512", "1024", "2048", "4096"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// addThreads adds the option of commands whose work may be spread over threads.
func (o *hostOptions) addThreads(f *pflag.FlagSet) {
	f.IntVar(&o.threads, "threads", 0, "how `many` threads serve the interface's receive queues (default: one for each, but no more than half of the processors)")
}

// spread says how many threads there may be: what was asked for, or half of the processors, since the kernel's part of receiving wants
// as much as the thread, and threads that share a processor cost more than one that does it all (docs/performance-rnic.md); of these no
// more than there can be work for.
func (o *hostOptions) spread(most int) {
	o.host.Threads = min(most, max(1, runtime.GOMAXPROCS(0)/2))
	if o.threads > 0 {
		o.host.Threads = o.threads
	}
}

// peerVia are the values of --via.
var peerVia = []string{port.ViaXDP, port.ViaPacket}

// read makes a host's options of them.
func (o *hostOptions) read() error {
	var err error
	if o.transport, err = stream.ParseTransport(o.service); err != nil {
		return errUsage("--connection: %w", err)
	}
	h := &o.host
	h.Interface, h.Via = o.iface, o.via
	switch {
	case o.mtu != 0 && !dissect.ValidMTU(o.mtu):
		return errUsage("--mtu cannot be %d; path MTUs are 256, 512, 1024, 2048 and 4096", o.mtu)
	case o.port == 0:
		return errUsage("--port cannot be 0")
	case o.vlan < 0 || o.vlan > 4094:
		return errUsage("--vlan cannot be %d; it is 1 to 4094", o.vlan)
	case o.threads < 0 || o.threads > rnic.MaxQueues:
		return errUsage("--threads cannot be %d; it is 1 to %d", o.threads, rnic.MaxQueues)
	case o.via != "" && !slices.Contains(peerVia, o.via):
		return errUsage("--via cannot be %q; there are %s", o.via, strings.Join(peerVia, ", "))
	case len(o.addrs) == 0 && (o.router != "" || o.mac != "" || o.vlan != 0):
		return errUsage("--router, --mac and --vlan are for own addresses: --address says which")
	}
	h.Device.VLAN = uint16(o.vlan)
	for _, text := range o.addrs {
		a, err := parseAddress("address", text)
		if err != nil {
			return err
		}
		h.Addrs = append(h.Addrs, a)
	}
	if o.router != "" {
		if h.Router, err = parseAddress("router", o.router); err != nil {
			return err
		}
	}
	if o.mac != "" {
		mac, err := net.ParseMAC(o.mac)
		if err != nil || len(mac) != 6 {
			return errUsage("--mac cannot be %q; it is a MAC address such as 02:00:00:00:00:01", o.mac)
		}
		copy(h.MAC[:], mac)
	}
	return nil
}

// reach finds a peer's address, and the interface to it.
func (o *hostOptions) reach(ctx context.Context, peer string) (to netip.AddrPort, err error) {
	addr, err := netip.ParseAddr(peer)
	if err != nil {
		all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", peer)
		if err != nil || len(all) == 0 {
			return to, fmt.Errorf("%s: nobody knows an address of that name", peer)
		}
		addr = all[0]
	}
	addr = addr.Unmap()
	to = netip.AddrPortFrom(addr, o.port)
	if o.iface != "" {
		return to, nil
	}
	if o.iface, err = route.InterfaceTo(addr); err != nil {
		return to, fmt.Errorf("%w (-i)", err)
	}
	o.host.Interface = o.iface
	return to, nil
}

func parseAddress(option, text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, errUsage("--%s cannot be %q; it is an IPv4 or IPv6 address", option, text)
	}
	return a.Unmap().WithZone(""), nil
}

// openHost puts a host on the wire.
func openHost(o peer.Options) (*peer.Host, error) {
	h, err := peer.Open(o)
	if err != nil {
		return nil, peerError(err, o.Interface)
	}
	return h, nil
}

// peerError gives an error of taking part its exit code, and says what to do.
func peerError(err error, iface string) error {
	plain := &prefixError{err, "port: "}
	switch {
	case errors.Is(err, peer.ErrRules):
		return errUsage("%w", plain)
	case errors.Is(err, route.ErrNoInterface):
		return errUnavailable("%w; %s", plain, suggestInterface(iface))
	case errors.Is(err, port.ErrPrivilege):
		return errUnavailable("%w\nTo take part, be root (sudo), or let this program do it once and for all:\n  %s", plain, setcap(xdpCapabilities))
	case errors.Is(err, route.ErrDown), errors.Is(err, route.ErrUnsupported), errors.Is(err, peer.ErrNoAddress),
		errors.Is(err, port.ErrFrameSize), errors.Is(err, port.ErrGone), errors.Is(err, port.ErrDown), errors.Is(err, port.ErrBusy), errors.Is(err, port.ErrNotSupported):
		return errUnavailable("%w", plain)
	}
	return plain
}

// where says where a host is, for people.
func where(h *peer.Host) string {
	info, _ := h.Port()
	var addrs []string
	for _, a := range h.Addrs() {
		addrs = append(addrs, a.String())
	}
	threads := ""
	if n := len(h.Threads()); n > 1 {
		threads = fmt.Sprintf(", on %d threads", n)
	}
	return fmt.Sprintf("%s (%s), path MTU up to %d, by %s (%s)%s", info.Interface, strings.Join(addrs, ", "), h.Device().MTU(), info.Via, info.Detail, threads)
}
