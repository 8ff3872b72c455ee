package testkit

import (
	"bytes"
	"net"
	"regexp"
	"slices"
	"strconv"

	"github.com/rocescope/rocescope/dissect"
)

// TruePairs is the truth for Disguise about a capture in RXE: the queue pairs that the programs on both sides printed, in
// their order, and those of handshakes in the file. ok is false where nothing tells.
func TruePairs(e Entry, frames []Frame) (pairs []QPPair, ok bool) {
	pairs = CMPairs(frames)
	client, server := e.Client.QueuePairs(), e.Server.QueuePairs()
	a, foundA := addressOf(e.Client.MAC, frames)
	b, foundB := addressOf(e.Server.MAC, frames)
	if foundA && foundB {
		for i := range min(len(client), len(server)) {
			if p := (QPPair{QPAddr{a, client[i].QPN}, QPAddr{b, server[i].QPN}}); !slices.Contains(pairs, p) {
				pairs = append(pairs, p)
			}
		}
	}
	if len(pairs) == 0 { // the programs were killed before they printed anything
		pairs = SocketPairs(frames)
	}
	return pairs, len(pairs) > 0
}

// addressOf is the address under which a machine speaks RoCE.
func addressOf(mac string, frames []Frame) (dissect.Addr, bool) {
	want, err := net.ParseMAC(mac)
	if err != nil {
		return dissect.Addr{}, false
	}
	packets, data := Decode(frames)
	for i := range packets {
		p := &packets[i]
		e := p.Ethernet(data[i])
		switch {
		case !p.IsTransport() || e == nil:
		case bytes.Equal(e.Src(), want):
			return p.Src, true
		case bytes.Equal(e.Dst(), want):
			return p.Dst, true
		}
	}
	return dissect.Addr{}, false
}

// CMPairs are the pairs that CM handshakes in a capture make: a REQ and the REP that answers it. The messages are read by
// the specification's offsets (IBA 12.6), without dissect's views of them.
func CMPairs(frames []Frame) (pairs []QPPair) {
	type request struct {
		from dissect.Addr
		id   uint32
	}
	asked := map[request]uint32{}
	answered := map[QPPair]bool{}
	packets, data := Decode(frames)
	for i := range packets {
		p := &packets[i]
		mad := p.Payload(data[i])
		if !isGSI(p) || len(mad) < 256 || mad[1] != 7 {
			continue
		}
		d := mad[24:]
		switch be.Uint16(mad[16:]) {
		case cmREQ:
			asked[request{p.Src, be.Uint32(d)}] = be.Uint32(d[31:]) & 0xFFFFFF
		case cmREP:
			qpn, ok := asked[request{p.Dst, be.Uint32(d[4:])}]
			pair := QPPair{QPAddr{p.Dst, qpn}, QPAddr{p.Src, be.Uint32(d[11:]) & 0xFFFFFF}}
			if ok && !answered[pair] {
				answered[pair] = true
				pairs = append(pairs, pair)
			}
		}
	}
	return pairs
}

// toolLine is how perftest (with the outstanding READs in second place) and the pingpong programs name a queue pair.
var toolLine = regexp.MustCompile(`^[0-9a-f]{4}:(?:[0-9a-f]{4}:)?([0-9a-f]{6}):[0-9a-f]{6}:`)

// SocketPairs are the pairs that a tool's TCP exchange in a capture makes: the queue pairs that client and server name, in
// their order. Of several lines in one segment it sees the first.
func SocketPairs(frames []Frame) (pairs []QPPair) {
	var named [2][]QPAddr // by who calls, who is called
	packets, data := Decode(frames)
	for i := range packets {
		p := &packets[i]
		line := toolLine.FindSubmatch(p.Payload(data[i]))
		if p.Proto != dissect.ProtoTCP || line == nil || p.DstPort != toolPort && p.SrcPort != toolPort {
			continue
		}
		side := &named[0]
		if p.SrcPort == toolPort {
			side = &named[1]
		}
		n, err := strconv.ParseUint(string(line[1]), 16, 24)
		if q := (QPAddr{p.Src, uint32(n)}); err == nil && !slices.Contains(*side, q) {
			*side = append(*side, q)
		}
	}
	for i := range min(len(named[0]), len(named[1])) {
		pairs = append(pairs, QPPair{named[0][i], named[1][i]})
	}
	return pairs
}
