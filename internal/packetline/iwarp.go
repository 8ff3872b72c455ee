package packetline

import (
	"strconv"

	"github.com/rocescope/rocescope/dissect"
)

// isIWARP reports whether the packet begins with one of iWARP's headers.
func isIWARP(p *dissect.Packet) bool {
	return p.Has(dissect.LayerFPDU) || p.Has(dissect.LayerMPARequest) || p.Has(dissect.LayerMPAReply)
}

// iwarpDetails are the fields that say most of an FPDU; those that it does not
// have are left out.
var iwarpDetails = []struct{ label, field string }{
	{"STag", "iwarp_ddp.stag"},
	{"TO", "iwarp_ddp.tagged_offset"},
	{"QN", "iwarp_ddp.qn"},
	{"MSN", "iwarp_ddp.msn"},
	{"MO", "iwarp_ddp.mo"},
	{"InvSTag", "iwarp_rdma.inval_stag"},
	{"Source", "iwarp_rdma.srcstag"},
	{"SourceTO", "iwarp_rdma.srcto"},
	{"Sink", "iwarp_rdma.sinkstag"},
	{"SinkTO", "iwarp_rdma.sinkto"},
	{"Size", "iwarp_rdma.rdmardsz"},
	{"ID", "iwarp_rdma.atomic.request_identifier"},
	{"ID", "iwarp_rdma.atomic.original_request_identifier"},
	{"Original", "iwarp_rdma.atomic.original_remote_data_value"},
	{"Imm", "iwarp_rdma.immediate"},
	{"Revision", "iwarp_mpa.rev"},
	{"Markers", "iwarp_mpa.marker_flag"},
	{"CRC", "iwarp_mpa.crc_flag"},
	{"Rejected", "iwarp_mpa.rej_flag"},
	{"IRD", "iwarp_mpa.ird"},
	{"ORD", "iwarp_mpa.ord"},
	{"Private", "iwarp_mpa.pdlength"},
	{"Error", "iwarp_rdma.term_error"},
	{"ULPDU", "iwarp_mpa.ulpdulength"},
}

func appendIWARP(dst []byte, p *dissect.Packet, frame []byte) []byte {
	switch {
	case p.Has(dissect.LayerMPARequest):
		dst = append(dst, "MPA Request"...)
	case p.Has(dissect.LayerMPAReply):
		dst = append(dst, "MPA Reply"...)
	default:
		for _, l := range [...]dissect.Layer{dissect.LayerDDPTagged, dissect.LayerDDPUntagged} {
			if p.Has(l) {
				h := dissect.DDP(frame[p.Offset(l):])
				dst = append(dst, h.Opcode().String()...)
				if h.Last() {
					dst = append(dst, " Last"...)
				}
			}
		}
	}
	for _, d := range iwarpDetails {
		for _, f := range dissect.LookupField(d.field) {
			at := len(dst)
			dst = append(append(append(dst, ' '), d.label...), '=')
			var ok bool
			if dst, ok = f.AppendText(dst, p, frame); ok {
				break
			}
			dst = dst[:at]
		}
	}
	return dst
}

// appendTunnel says in which tunnel a packet lies.
func appendTunnel(dst []byte, p *dissect.Packet) []byte {
	kind, id := p.Tunnel()
	if kind == dissect.LayerFrame {
		return dst
	}
	names := map[dissect.Layer]string{
		dissect.LayerVXLAN: "VXLAN", dissect.LayerGENEVE: "GENEVE", dissect.LayerGRE: "GRE", dissect.LayerERSPAN2: "ERSPAN II",
		dissect.LayerERSPAN3: "ERSPAN III", dissect.LayerMPLS: "MPLS", dissect.LayerPPPoE: "PPPoE",
	}
	name, ok := names[kind]
	if !ok {
		return appendNote(dst, "in IP")
	}
	return appendNote(dst, "in "+name+" "+strconv.FormatUint(uint64(id), 10))
}
