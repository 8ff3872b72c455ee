package fault

import "slices"

var catalogue = slices.Concat(frameFaults, headerFaults, packetFaults, answerFaults)

// in puts faults under a heading.
func in(section string, faults []Fault) []Fault {
	for i := range faults {
		faults[i].Section = section
	}
	return faults
}

var outcomes = [][2]string{
	{"DROP", "discard silently: no packet back, no memory write, ePSN, MSN and QP state unchanged, a drop counter may move"},
	{"ACK", "positive acknowledge (AETH type 000) or the read/atomic response"},
	{"NAK-SEQ", "AETH syndrome 0x60, PSN field = ePSN; QP state unchanged; sent once until the gap is repaired"},
	{"NAK-INV", "AETH syndrome 0x61 (invalid request); responder QP to Error, receive WQE in use completes with an error, the rest flush; with no receive WQE in play (WRITE, READ, atomic) an affiliated asynchronous event instead (C9-222.1.1, 9.9.3.1.3)"},
	{"NAK-ACC", "AETH syndrome 0x62 (remote access error); then as NAK-INV"},
	{"NAK-OP", "AETH syndrome 0x63 (remote operational error); then as NAK-INV"},
	{"RNR", "AETH syndrome 0x20 + 5-bit timer code; QP state unchanged"},
	{"DUP-ACK", "acknowledge again with the PSN of the last request already completed (ePSN - 1); do not execute again. A duplicate without AckReq may also stay unanswered"},
	{"REPLAY", "send the read response again from memory, or the *saved* atomic result; do not execute again"},
	{"RETRY", "requester goes back to the oldest unacknowledged PSN and sends again; retry counter decremented"},
	{"RNR-WAIT", "requester pauses at least the time coded in the RNR NAK, then RETRY; RNR counter decremented"},
	{"CQE-x", "requester completes the WQE with error x and moves the QP to Error; later WQEs flush"},
	{"IGNORE", "requester throws the response away, state unchanged (a time-out may follow)"},
	{"IMPL", "the specification leaves it open or to the vendor: record what the DUT does, fail only on crash, hang, leak or corruption"},
}

var sources = [][2]string{
	{"R", "responder of soft-RoCE in Linux (rxe_resp.c)"},
	{"RC", "requester of soft-RoCE (rxe_comp.c)"},
	{"RV", "what soft-RoCE checks on receiving (rxe_recv.c)"},
	{"S", "the book InfiniBand Network Architecture (MindShare), chapters 17 (errors of classes A, B and C, duplicate region) and 20 (UD)"},
	{"C", "IBTA compliance suite pages published at soft-forge.com (InfiniBand Test Specification 1.0.38: V1C09-060 completion rules in 9.7.x, V1C09-130 RNR in 9.7.5.2.8)"},
	{"A17", "IBTA Annex A17 RoCEv2 (Sept 2014), public copies; CNP in A17.9.3"},
	{"X", "AMD ERNIC guide PG332, \"ERNIC RX Path\" (packet-validation error-syndrome table), \"Response Handler\""},
	{"L", "lumina-test/lumina (go-back-N, read, CNP checkers; P4 injector) and the SIGCOMM'23 paper"},
	{"RS", "datenlord/roce-sim src/case/transport_layer_err (scapy peer against rxe)"},
	{"G", "google/rdma-unit-test (ibverbs black-box tests)"},
	{"C9-n", "compliance statement of IBTA Vol. 1 chapter 9, as cited in the named public source (C9-88, 92, 94, 105, 110, 130, 148), or quoted in posts to the linux-rdma list (C9-6, 42, 148, 205, 218, 220, 222.1.1; sections 9.2.11, 9.4.5, 9.7.4.1, 9.7.5.1.2, 9.7.7.1, 9.8.3.2.2, 9.9.3.1.3)"},
	{"CA17-n", "compliance statement of annex A17, read in two public text copies; CA17-24 makes every breach of its header and ICRC rules a silent drop"},
	{"T", "transport error counters with the programmer's manual's comments in Mellanox' InfiniHost register header, ipxe/ipxe src/drivers/net/mlx_ipoib/MT23108_PRM.h: which fault counts as which error, both roles"},
	{"K:hfi1", "torvalds/linux hw/hfi1 rc.c, uc.c, ud.c, ruc.c with sw/rdmavt rc.c (K:rdmavt), mr.c; qib_rc.c of the older driver agrees where named"},
	{"K:rxe", "rxe of Linux 6.12, files as under R, RC, RV"},
	{"P", "nminoru/pib driver/pib_rc.c, pib_ud.c, pib_thread.c: a software HCA written from the specification"},
	{"B", "datenlord/blue-rdma src/ReqHandleRQ, RespHandleSQ, InputPktHandle (FPGA core)"},
	{"V", "IBTA Vol. 1 chapter 9 from general knowledge, section number not checked against the text here: confirm before quoting"},
}
