package flows

import "fmt"

// The checks on what two hosts have in common.
var (
	checkCENoCNP = Check{
		ID: "ce_without_cnp", Severity: Note, Title: "Congestion marks, but no CNP comes back",
		Explain: "Switches marked packets with \"congestion experienced\", and their receiver sent no congestion notification (CNP) past this capture point. Then only pause frames slow the sender down. CNPs are optional, and the receiver of this path need not be configured for them. Marks show only behind the switch that sets them.",
		Rule:    "IBA Annex A17.9.3, CA17-44; RFC 3168, 5",
		Try:     "Look whether congestion control is on at the receiver (notification point) for this priority, whether it counts the marked packets, and whether its CNPs leave by another path than this capture point sees. Soft-RoCE never sends CNPs.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s: %s marked CE at this tap (%s), and no CNP came back past it", f.Where, plural(int(f.Args[0]), "packet is", "packets are"), tapText(Tap(f.Args[1])))
		},
	}
	checkCNPNoCE = Check{
		ID: "cnp_without_ce", Severity: Note, Title: "CNPs, but no marked packets",
		Explain: "A host sent congestion notifications, but none of the packets towards it carries \"congestion experienced\" at this capture point. The usual cause is that the marking switch lies between this capture point and that host.",
		Rule:    "IBA Annex A17.9.3, CA17-44",
		Try:     "If this capture point is at the host that sends the CNPs, no packet gave it a reason: look at its notification settings. Else this is expected.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s: %s, but no packet the other way is marked CE at this capture point", f.Where, plural(int(f.Args[0]), "CNP", "CNPs"))
		},
	}
	checkCNPDSCP = Check{
		ID: "cnp_dscp", Severity: Warning, Title: "CNPs leave with another DSCP than expected",
		Explain: "CNPs carry a DSCP of their own, which should put them in a class that overtakes the congested queue. In another class they come late or are dropped.",
		Rule:    "(the expected value is the user's)",
		Try:     "Set the DSCP and priority of CNPs at the notification point (np_cnp_dscp, np_cnp_prio), and compare with the switches' map.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s: %s with DSCP %d where %d is expected", f.Where, plural(int(f.Count), "CNP", "CNPs"), f.Args[0], f.Args[1])
		},
	}
	checkDSCPMixed = Check{
		ID: "dscp_mixed", Severity: Note, Title: "Packets of two hosts have different DSCPs",
		Explain: "Queue pairs, or the two directions, between these hosts do not use one DSCP. A class of service that is set on one side only is often silently ignored on the other.",
		Rule:    "RFC 2474; IBA Annex A17.3.1 (traffic class)",
		Try:     "If one class is meant, compare the traffic class that each side asks for (rdma_set_option, ibv_ah_attr, tc) with what leaves.",
		text: func(f *Finding) string {
			if f.Args[0] != 0 && f.Args[1] != 0 && f.Args[0] != f.Args[1] {
				return fmt.Sprintf("%s: DSCP %s that way, %s the other", f.Where, numbers(bitsOf(f.Args[0])), numbers(bitsOf(f.Args[1])))
			}
			return fmt.Sprintf("%s: DSCPs %s", f.Where, numbers(bitsOf(f.Args[0]|f.Args[1])))
		},
	}
	checkUnprotected = Check{
		ID: "dscp_unprotected", Severity: Warning, Title: "Data in a class that PFC does not protect",
		Explain: "Pause frames in this capture are for other priorities, while this data has DSCP 0 and so, by the usual maps, travels in priority 0, which may drop.",
		Rule:    "IEEE 802.1Qbb; RFC 2474",
		Try:     "Give the RDMA traffic the DSCP (and, if tagged, the 802.1p priority) of the class that is lossless in switches and cards.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s: data with DSCP 0, while PFC protects priority %s only", f.Where, numbers(bitsOf(f.Args[0])))
		},
	}
	checkPFCOff = Check{
		ID: "pfc_off", Severity: Warning, Title: "Data in a priority for which PFC is off",
		Explain: "By DCBX the port that sends or receives this data says for which priorities pause frames are on; the data travels in another, which may drop. The priority is that of the VLAN tag, or without a tag the one that the same DCBX gives to the DSCP or to RoCE; where neither tells, nothing is concluded. Of a port that takes over its peer's settings, the peer's count.",
		Rule:    "IEEE 802.1Q D.2.10 (PFC configuration), D.2.11 (application priority); 802.1Qbb",
		Try:     "Turn PFC on for that priority at both ends of the link, or give the RDMA traffic the priority, or the DSCP, of a class that has it.",
		text: func(f *Finding) string {
			on := "none"
			if f.Args[1] != 0 {
				on = numbers(bitsOf(f.Args[1])) + " only"
			}
			return fmt.Sprintf("%s: data in priority %s, while %s says that PFC is on for %s", f.Where, numbers(bitsOf(f.Args[0])), macText(f.Args[2]), on)
		},
	}
	checkOneSrcPort = Check{
		ID: "one_source_port", Severity: Note, Title: "All queue pairs use one UDP source port",
		Explain: "Switches spread flows over equal paths by addresses and ports. With one source port for all queue pairs, everything between the two hosts takes one path.",
		Rule:    "IBA Annex A17.3.2.1 (source port)",
		Try:     "If there are several paths, let each queue pair have a source port of its own: a flow label, or the stack's UDP source port setting.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s: %d queue pairs, all from UDP source port %d", f.Where, f.Args[0], f.Args[1])
		},
	}
	checkSrcPortRange = Check{
		ID: "source_port_range", Severity: Note, Title: "UDP source port outside of 49152 to 65535",
		Explain: "By convention RoCE v2 source ports are 0xC000 to 0xFFFF, with 14 bits of entropy. Others are legal; some tools take the packets for another protocol then.",
		Rule:    "IBA Annex A17.3.2.1; RFC 6335, 6",
		Try:     "Nothing needs to be done, unless a firewall or an access list on the way matches source ports.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s: source port %d", f.Where, f.Args[0])
		},
	}
	checkVLANMixed = Check{
		ID: "vlan_mixed", Severity: Warning, Title: "Two directions in different VLANs",
		Explain: "All packets one way are in one VLAN, and all packets the other way in another, or without a tag. Either a device sends or takes packets outside of its VLAN, or the capture point sees one direction before and the other behind a port that changes tags.",
		Rule:    "IEEE 802.1Q, 8.6; IBA Annex A17 leaves VLANs to IEEE 802",
		Try:     "Compare the VLAN of the GID that each side uses; if the capture comes from a mirror, look whether it strips tags.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s: %s that way, %s the other", f.Where, vlanText(f.Args[0]), vlanText(f.Args[1]))
		},
	}
	checkZeroMAC = Check{
		ID: "zero_mac", Severity: Warning, Title: "Ethernet address is all zeros",
		Explain: "A frame left with the Ethernet address 00:00:00:00:00:00: the sender's address was not set, or the destination's was never resolved. Switches drop or flood it.",
		Rule:    "IEEE 802.3, 3.2.3",
		Try:     "Look whether the neighbour was resolved (ARP, neighbour discovery) before the address handle was made.",
		text: func(f *Finding) string {
			which := "destination"
			if f.Args[0] == 0 {
				which = "source"
			}
			return fmt.Sprintf("%s: all-zero %s address (%s)", f.Where, which, plural(int(f.Count), "stream", "streams"))
		},
	}
	checkLinkLocal = Check{
		ID: "link_local", Severity: Note, Title: "Link-local source address",
		Explain: "The source is a link-local address (fe80::/10). Routers do not forward such packets, and the answer cannot come back from another subnet.",
		Rule:    "RFC 4291, 2.5.6",
		Try:     "Choose the GID index of the IPv4 or of a global IPv6 address (RoCE v2) at both ends.",
		text: func(f *Finding) string {
			if f.Args[0] != 0 {
				return fmt.Sprintf("%s: sent from a link-local address, and nothing comes back", f.Where)
			}
			return fmt.Sprintf("%s: sent from a link-local address to one that is not", f.Where)
		},
	}
	checkMigReq = Check{
		ID: "migreq_mixed", Severity: Note, Title: "MigReq differs between the two sides",
		Explain: "One side sends the migration request bit set, as hardware does, the other cleared, as soft-RoCE does. Both are legal; some cards take a slow path for cleared ones.",
		Rule:    "IBA Vol 1, 9.2.3, 17.2.8",
		Try:     "Only if the hardware side is slow or drops packets: set the bit at the other side (state MIGRATED).",
		text: func(f *Finding) string {
			if f.Args[0] != 0 {
				return fmt.Sprintf("%s: MigReq is 1 that way, 0 the other", f.Where)
			}
			return fmt.Sprintf("%s: MigReq is 0 that way, 1 the other", f.Where)
		},
	}
	checkUDPChecksum = Check{
		ID: "udp_checksum", Severity: Warning, Title: "UDP checksum is wrong",
		Explain: "RoCE v2 senders may leave the UDP checksum 0. This one is not 0 and does not fit the packet, though it is not the half-made one that a sending host leaves to its card either. Receivers and middleboxes may drop the packet.",
		Rule:    "RFC 768; RFC 8200, 8.1; IBA Annex A17.3.2.4",
		Try:     "Send 0, or look at what changed the packet on its way (address or port translation).",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s: checksum 0x%04x does not fit (%s)", f.Where, f.Args[0], plural(int(f.Count), "stream", "streams"))
		},
	}
	checkRoCEVersions = Check{
		ID: "roce_version", Severity: Warning, Title: "RoCE v1 one way, v2 the other",
		Explain: "One station sends RoCE v1 (EtherType 0x8915), the other RoCE v2 (UDP port 4791). A queue pair takes packets of its own version only, so neither hears the other, and transport retries run out.",
		Rule:    "IBA Annex A17, CA17-40, CA17-41",
		Try:     "Choose GID indexes of the same type at both ends (show_gids; RoCE v2 is the usual choice).",
		text: func(f *Finding) string {
			if f.Args[0] != 0 {
				return f.Where + ": RoCE v1 that way, RoCE v2 the other"
			}
			return f.Where + ": RoCE v2 that way, RoCE v1 the other"
		},
	}
)

// vlanText names a VLAN by its identifier + 1; 0 is no tag.
func vlanText(v uint64) string {
	if v = v & 0xFFFF; v == 0 {
		return "untagged"
	}
	return fmt.Sprintf("VLAN %d", v-1)
}
