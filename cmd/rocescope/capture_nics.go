package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// nicFact is something to know about a family of network cards, and where it is said.
type nicFact struct {
	text, source string
	found        bool // the doctor finds it out by itself, and says it otherwise
}

// nicFamily is the cards and virtual interfaces that have a driver in common. What a single interface can do, the doctor
// finds out by itself where that is possible; the facts are what nothing tells but those who wrote the driver.
type nicFamily struct {
	name    string
	drivers []string
	// noRoCE are the commands that make a card leave RoCE to the kernel, %[1]s being its address on the bus, and roce those
	// that make it do RoCE again.
	noRoCE, roce string
	facts        []nicFact
}

// Where the facts are said.
const (
	linuxCommit = "https://github.com/torvalds/linux/commit/"
	linuxFile   = "https://github.com/torvalds/linux/blob/master/"
	xdpTables   = "https://github.com/isovalent/ebpf-docs/blob/014b3b57ee4dd6e54c64de14c8884fcfd756b68f/docs/linux/program-type/BPF_PROG_TYPE_XDP.md"
)

// nicFamilies is all that we know of drivers, in the order of docs/nics.md.
var nicFamilies = []nicFamily{
	{
		name: "NVIDIA ConnectX-4 and later, BlueField", drivers: []string{"mlx5_core"},
		noRoCE: "sudo devlink dev param set pci/%[1]s name enable_roce value false cmode driverinit && sudo devlink dev reload pci/%[1]s",
		roce:   "sudo devlink dev param set pci/%[1]s name enable_roce value true cmode driverinit && sudo devlink dev reload pci/%[1]s",
		facts: []nicFact{
			{"Where RoCE is enabled on the port, the card takes RoCE packets itself. Where it is not, they are plain Ethernet to it.", linuxCommit + "0de60af649533ad8d9aaeab1df710e6a728d45ea", true},
			{"The devlink parameter enable_roce switches RoCE off; it takes a reload. UDP port 4791 is then raw Ethernet traffic, and the host has no RDMA.", linuxCommit + "cc9defcbb8fae52810f7795b039223edae51ef95", true},
			{"With RoCE enabled, its packets can be captured through the RDMA device: tcpdump -i mlx5_0, with libpcap 1.9 or later. This can slow RDMA down.", "https://docs.nvidia.com/doca/sdk/Offloaded+Traffic+Sniffer", true},
			{"AF_XDP zero-copy from Linux 5.3 on.", linuxCommit + "db05815b36cbd486c86fd002dfa81c9af6245e25", true},
			{"XDP takes frames of more than a page from Linux 6.4 on; from 5.18 on only with the legacy receive queue, which is not the default.", xdpTables, false},
			{"Without frames of more than a page, the largest MTU with XDP is 3498 on x86.", xdpTables, false},
			{"Kernels older than commit 3db4c85cde7a (2022) have AF_XDP's queues behind the ordinary ones: N to 2N-1 of N channels.", linuxCommit + "11abca031ee34d8d50876e899cb2875d8fac01df", false},
		},
	},
	{
		name: "Intel E810 and others of the 800 series", drivers: []string{"ice"},
		noRoCE: "sudo devlink dev param set pci/%[1]s name enable_roce value false cmode runtime",
		roce:   "sudo devlink dev param set pci/%[1]s name enable_roce value true cmode runtime",
		facts: []nicFact{
			{"These cards come up with RoCE v2 enabled, where the driver irdma is loaded.", linuxCommit + "c384cee14aa330ba2f5616fb821ba81f2ef42ccd", true},
			{"The devlink parameters enable_roce and enable_iwarp switch them on and off while the card runs; not both at once.", linuxCommit + "e523af4ee56090fbdd9cf474752448d35930bcd4", true},
			{"Intel's guide says how to capture RDMA traffic of these cards, which the kernel does not see.", "https://edc.intel.com/content/www/us/en/design/products/ethernet/800-series-linux-flow-control-configuration-guide-for-rdma-use-c/tcpdump/", false},
			{"AF_XDP zero-copy from Linux 5.5 on.", linuxCommit + "2d4238f5569722197612656163d824098208519c", true},
			{"XDP takes frames of more than a buffer from Linux 6.3 on.", linuxCommit + "2fba7dc5157b6f85dbf1b8e26e63a724db1f3d79", true},
			{"Without frames of more than a buffer, the largest MTU with XDP is 3046.", xdpTables, false},
		},
	},
	{
		name: "Intel 700 series", drivers: []string{"i40e"},
		facts: []nicFact{
			{"X722 does RDMA by iWARP only, never RoCE.", "https://git.zx2c4.com/linux-dev/plain/drivers/infiniband/hw/irdma/Kconfig", false},
			{"AF_XDP zero-copy from Linux 4.20 on.", linuxCommit + "0a714186d3c0f7c563a03537f98716457c1f5ae0", true},
			{"XDP takes frames of more than a buffer from Linux 6.4 on.", linuxCommit + "e213ced19befc09d6d6913799053b67896596cd1", true},
			{"The largest MTU with XDP is 3046, and 9702 with frames of more than a buffer.", xdpTables, false},
		},
	},
	{
		name: "Intel 82599, X540, X550", drivers: []string{"ixgbe"},
		facts: []nicFact{
			{"AF_XDP zero-copy from Linux 4.20 on.", linuxCommit + "d0bcacd0a130974f58a56318db7a5ca6a7ba1d5a", true},
			{"XDP takes no frames of more than a buffer (as of Linux 6.10): the largest MTU with it is 3050, so that RoCE MTU 4096 takes the engine packet.", xdpTables, false},
		},
	},
	{
		name: "Intel I225, I226", drivers: []string{"igc"},
		facts: []nicFact{
			{"XDP takes no MTU beyond 1500.", linuxCommit + "26575105d6ed8e2a8e43bd008fc7d98b75b90d5c", false},
			{"AF_XDP zero-copy from Linux 5.14 on.", linuxCommit + "fc9df2a0b520d7d439ecf464794d53e91be74b93", true},
		},
	},
	{
		name: "Intel I210, I350 and others", drivers: []string{"igb"},
		facts: []nicFact{
			{"AF_XDP zero-copy from Linux 6.14 on.", linuxCommit + "80f6ccf9f1160ba26cfa4bf90f3cced6f2d12268", true},
			{"The largest MTU with XDP is 3046.", xdpTables, false},
		},
	},
	{
		name: "Broadcom NetXtreme-C and -E", drivers: []string{"bnxt_en"},
		facts: []nicFact{
			{"XDP from Linux 4.11 on, and with frames of more than a page from 5.19 on.", xdpTables, true},
			{"No AF_XDP zero-copy (as of Linux 6.10): the engine xdp copies.", xdpTables, true},
			{"Without frames of more than a page, the largest MTU with XDP is 3502 on x86.", xdpTables, false},
		},
	},
	{
		name: "Amazon ENA", drivers: []string{"ena"},
		facts: []nicFact{
			{"XDP from Linux 5.6 on, with no more than half of the channels that there may be (ethtool -L).", linuxFile + "drivers/net/ethernet/amazon/ena/ena_xdp.c", false},
			{"The MTU is 9001 at first, and XDP takes 3498 at most on x86.", "https://github.com/cilium/cilium/pull/19593", false},
			{"No AF_XDP zero-copy in Linux; a change to the driver is proposed.", "https://github.com/amzn/amzn-drivers/pull/378", true},
		},
	},
	{
		name: "Google gVNIC", drivers: []string{"gve"},
		facts: []nicFact{
			{"XDP from Linux 6.4 on, with as many queues to receive as to send, and no more than half of those that there may be.", linuxFile + "drivers/net/ethernet/google/gve/gve_main.c", false},
			{"AF_XDP zero-copy from Linux 6.4 on.", linuxCommit + "fd8e40321a12391e6f554cc637d0c4b6109682a9", true},
			{"The largest MTU with XDP is 2032.", xdpTables, false},
		},
	},
	{
		name: "virtio (KVM and others)", drivers: []string{"virtio_net"},
		facts: []nicFact{
			{"XDP is refused where the host joins packets or leaves checksums open, and gives the guest no means to change that; the kernel's log says so.", linuxFile + "drivers/net/virtio_net.c", false},
			{"XDP wants a queue to send for each core beside the ordinary ones. Without them it sends by a slower way; receiving is not concerned.", linuxFile + "drivers/net/virtio_net.c", false},
			{"XDP takes frames of more than a page from Linux 6.3 on.", linuxCommit + "22174f79a44baf5e46faafff1d7b21363431b93a", true},
			{"AF_XDP zero-copy from Linux 6.11 on.", linuxCommit + "d944c27a9d58179b2fd96e23104f213481ec1e8d", true},
		},
	},
	{
		name: "veth (containers, network namespaces)", drivers: []string{"veth"},
		facts: []nicFact{
			{"XDP from Linux 4.19 on.", linuxCommit + "948d4f214fde43743c57aae0c708bff44f6345f2", true},
			{"No AF_XDP zero-copy.", xdpTables, true},
			{"Above MTU 3520 on x86 (3506 where it was tried), XDP takes a program that is aware of frames of more than a page, as ours is.", xdpTables, false},
		},
	},
	{
		name: "tun and tap (virtual machines, tunnels)", drivers: []string{"tun"},
		facts: []nicFact{
			{"XDP from Linux 4.14 on.", linuxCommit + "761876c857cb2ef8489fbee01907151da902af91", true},
			{"XDP takes no MTU beyond 1500, and there is no AF_XDP zero-copy.", xdpTables, false},
		},
	},
}

// nicOf is what is known of a driver, nil for nothing.
func nicOf(driver string) *nicFamily {
	i := slices.IndexFunc(nicFamilies, func(f nicFamily) bool { return slices.Contains(f.drivers, driver) })
	if i < 0 {
		return nil
	}
	return &nicFamilies[i]
}

// writeNICs writes docs/nics.md.
func writeNICs(w io.Writer) error {
	var b strings.Builder
	b.WriteString(nicsIntroduction)
	for i := range nicFamilies {
		f := &nicFamilies[i]
		fmt.Fprintf(&b, "\n## %s (`%s`)\n\n", f.name, strings.Join(f.drivers, "`, `"))
		for _, fact := range f.facts {
			fmt.Fprintf(&b, "- %s ([source](%s))\n", fact.text, fact.source)
		}
		if f.noRoCE != "" {
			const address = "0000:3b:00.0"
			fmt.Fprintf(&b, "\nTo see RoCE on the interface of a card at %s, and to give it back:\n\n```\n%s\n\n%s\n```\n", address,
				strings.ReplaceAll(fmt.Sprintf(f.noRoCE, address), " && ", "\n"), strings.ReplaceAll(fmt.Sprintf(f.roce, address), " && ", "\n"))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const nicsIntroduction = `# Network cards

What is known of families of cards and virtual interfaces, for capturing from them and sending through them. ` + "`rocescope doctor IFACE`" + `
finds out by itself what an interface can do, and shows these facts for its driver beside that. No card was at hand when this
was written: each statement is what its source says, and was not tried here, but for veth.

## For all of them

- **A card that does RDMA takes RoCE before any socket sees it**, in both directions ([source](` + linuxCommit + `0de60af649533ad8d9aaeab1df710e6a728d45ea)). To see it: capture on a mirror port of the switch or at the other end;
  or through the RDMA device, where libpcap can (` + "`tcpdump -i mlx5_0 -U -w - | rocescope -`" + `); or switch RoCE off on that card, which is then a
  good place to capture what a mirror port sends, and to inject. The doctor prints the commands.
- **Receive-side scaling spreads flows over queues.** The engine packet sees all queues, and so does the engine xdp, with a socket and a thread on each.
  More queues than cores only cost: ` + "`ethtool -L IFACE combined N`" + `. RoCE has one UDP source port for each QP, as a rule: with ports in the hash, QPs spread;
  without them, all that two hosts say to each other is in one queue (` + "`ethtool -N IFACE rx-flow-hash udp4 sdfn`" + `).
  To have RoCE in one queue: ` + "`ethtool -N IFACE flow-type udp4 dst-port 4791 action Q`" + `, and ` + "`ethtool -N IFACE delete ID`" + ` afterwards
  ([source](https://docs.kernel.org/networking/af_xdp.html)). Rocescope changes none of this by itself.
- **VLAN tags** that a card takes out are put back by the engine packet. The engine xdp never sees them: ` + "`ethtool -K IFACE rxvlan off`" + `.
- **The MTU counts** also for what is only captured, and an XDP program may limit it further.
- **Time stamps** by the card's clock are for the engine packet ([source](https://docs.kernel.org/networking/timestamping.html)).
`
