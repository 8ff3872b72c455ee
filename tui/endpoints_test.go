package tui

import (
	"testing"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/filter"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestEndpointsOf adds up three connections among three hosts, of which one end is not named, and one of a host with itself.
func TestEndpointsOf(t *testing.T) {
	host := func(n uint64) dissect.Addr { return dissect.Addr{Lo: 0xFFFF<<32 | 10<<24 | n} }
	qp := func(h, n uint64, known bool) flows.QP {
		return flows.QP{QPName: flows.QPName{Addr: host(h), QPN: uint32(n)}, Known: known}
	}
	stream := func(packets, resent uint64) (s flows.Stream) {
		s.Packets, s.Bytes, s.RetransmittedPackets = packets, packets*100, resent
		s.Messages[flows.OpWrite] = flows.MessageCounts{Count: packets, Bytes: packets * 64}
		s.RNRNAKs, s.ECNCE, s.CNPs = packets/10, packets/5, packets/2
		return s
	}
	conns := []flows.Connection{
		{ID: 1, A: qp(1, 0x11, true), B: qp(2, 0x21, true), Streams: [2]flows.Stream{stream(10, 3), stream(2, 0)}},
		{ID: 2, A: qp(2, 0x22, true), B: qp(1, 0, false), Streams: [2]flows.Stream{stream(20, 0), stream(0, 0)}},
		{ID: 3, A: qp(1, 0x11, true), B: qp(3, 0x31, true), Streams: [2]flows.Stream{stream(5, 0), stream(5, 0)}},
		{ID: 4, A: qp(3, 0x31, true), B: qp(3, 0x32, true), Streams: [2]flows.Stream{stream(1, 0), stream(1, 0)}},
		{ID: 5, A: flows.QP{}, B: qp(2, 0x21, true), Streams: [2]flows.Stream{stream(4, 0), stream(0, 0)}},
	}
	all := endpointsOf(conns, []flows.Finding{{Conn: 1}, {Conn: 4}, {Conn: 4}, {Conn: 0}})
	if len(all) != 3 || all[0].addr != host(1) || all[1].addr != host(2) || all[2].addr != host(3) {
		t.Fatalf("%+v", all)
	}
	one, two, three := &all[0], &all[1], &all[2]
	if one.sent != (passed{15, 1500}) || one.received != (passed{27, 2700}) || one.conns != 3 || len(one.qps) != 1 || !one.unnamed || one.qpCount() != "≥1" {
		t.Errorf("the first: %+v", one)
	}
	if len(one.peers) != 2 || one.peers[0] != (peer{host(2), 2, passed{10, 1000}, passed{22, 2200}}) || one.peers[1] != (peer{host(3), 1, passed{5, 500}, passed{5, 500}}) {
		t.Errorf("the first's peers: %+v", one.peers)
	}
	if one.resent != 3 || one.rnrs != 1 || one.marked != 5 || one.cnps != 7 || one.asked[flows.OpWrite].Count != 15 || one.operations() != "write: 15, 960 B" {
		t.Errorf("the first: %+v", one)
	}
	if two.conns != 3 || two.sent.packets != 22 || two.received.packets != 14 || two.qpCount() != "2" || len(two.peers) != 1 {
		t.Errorf("the second: %+v", two)
	}
	if three.conns != 2 || three.sent.packets != 7 || three.received.packets != 7 || three.qpCount() != "2" || three.peers[1].addr != host(3) {
		t.Errorf("the third: %+v", three)
	}
	sev := (&flows.Finding{}).Severity()
	if one.found[sev] != 1 || two.found[sev] != 1 || three.found[sev] != 2 {
		t.Errorf("findings: %v %v %v", one.found, two.found, three.found)
	}
	for _, a := range []dissect.Addr{host(1), {Hi: 0xfe80 << 48, Lo: 7}, {Lo: 3}} {
		if _, err := filter.Compile((&endpoint{addr: a}).filter()); err != nil {
			t.Errorf("%v: %v", a, err)
		}
	}
}

func TestHostsAndTheirConnections(t *testing.T) {
	u := openUser(t, sampleFile(t, samples.Default), 120, 40)
	u.press("7").sees("Endpoints (2)", "10.77.0.1 (enter: its connections)", "asked for write: 60, 240 KiB", "sends     to 10.77.0.2 with DSCP 0", "talks to")
	u.press("j").sees("10.77.0.2 (enter", "nothing in this capture")
	u.press("enter").sees("Connections of 10.77.0.2 (1)", "Endpoints (2)").press("enter").sees("paired by").press("esc", "esc").sees("Endpoints (2)")
	u.press("2").sees("Connections (1)").press("[").sees("10.77.0.2 (enter")
	u.press("s", "resent", "enter").sees("resent▼").press("g").sees("10.77.0.1 (enter")
	u.press("f").sees("host is 10.77.0.1", "equals").press("enter").sees("518 packets", "ip.addr == 10.77.0.1", "Endpoints of connections with packets of the filter (2)")
	u.press("X", "right", "right", "f").sees("There is no field under the cursor")
	u.press("P").sees("host-1").seesNot("10.77.0.1").press("P")
	u.press("d").sees("Ladder of #1").press("esc", "3").sees("Messages of #1")
	u.press("/", "frame.number == 1", "enter", "7").sees("No packet passes the filter.").press("X").sees("Endpoints (2)")
}

// TestHostsWithoutRoCE: addresses of InfiniBand, and a capture that has no queue pair.
func TestHostsWithoutRoCE(t *testing.T) {
	u := openUser(t, sampleFile(t, "cm_rping_ipv6"), 80, 24)
	u.press("7").sees("fd77::1", "7 Endpoints")
	u.press("f", "enter").sees("ipv6.addr == fd77::1").press("z").seesNot("talks to")
}

// TestHostsOfIWARP: the table of hosts is of queue pairs. It says that iWARP is elsewhere, alone and beside RoCE, and not where there is none.
func TestHostsOfIWARP(t *testing.T) {
	d := testkit.NewDuplex()
	for side, kind := range []string{"Req", "Rep"} {
		d.Send(side, testkit.MPAFrame(kind, 0, 1, nil))
		d.Ack(1 - side)
	}
	const apart = "1 iWARP connection, of which"
	for _, view := range []string{"2", "7"} {
		openUser(t, testkit.WriteCapture(t, "iwarp.pcap", d.Frames), 120, 40).press(view).sees("packets of RDMA are iWARP", "Here without "+apart)
	}
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.B.Answer(x.A.Write(100))
	openUser(t, testkit.WriteCapture(t, "both.pcap", append(x.Frames(), d.Frames...)), 120, 40).press("7").sees("Endpoints (2)", "without   "+apart)
	openUser(t, testkit.WriteCapture(t, "roce.pcap", x.Frames()), 120, 40).press("7").sees("Endpoints (2)").seesNot("iWARP")
}

// TestEndpointsOfMany has one UD queue pair that very many hosts talk to, in turn with another: none is counted twice.
func TestEndpointsOfMany(t *testing.T) {
	const many = 5_000
	server := dissect.Addr{Lo: 0xFFFF<<32 | 10<<24}
	var conns []flows.Connection
	for i := range uint64(2 * many) {
		client := flows.QPName{Addr: dissect.Addr{Lo: server.Lo + 1 + i%many}, QPN: uint32(i)}
		conns = append(conns, flows.Connection{
			ID: uint32(i + 1), A: flows.QP{QPName: client, Known: true},
			B: flows.QP{QPName: flows.QPName{Addr: server, QPN: 0x11 + uint32(i%100)}, Known: true},
		})
	}
	all := endpointsOf(conns, nil)
	if len(all) != many+1 || all[1].addr != server || len(all[1].qps) != 100 || len(all[1].peers) != many || all[1].conns != 2*many || all[1].peers[7].conns != 2 {
		t.Errorf("%d hosts; the second has %d queue pairs, %d peers, %d connections", len(all), len(all[1].qps), len(all[1].peers), all[1].conns)
	}
}
