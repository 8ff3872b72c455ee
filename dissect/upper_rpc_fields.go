package dissect

func rpcFields() []Field {
	return append(append([]Field{
		{Name: "rpcordma.private.magic", Text: "Format identifier", Layer: LayerRPCRDMAPrivate, Width: 32, Kind: Hex},
		{Name: "rpcordma.private.version", Text: "Format version", Layer: LayerRPCRDMAPrivate, Bit: 32, Width: 8, Kind: Dec},
		{Name: "rpcordma.private.remote_invalidate", Text: "Supports remote invalidation", Layer: LayerRPCRDMAPrivate, Bit: 47, Width: 1, Kind: Bool},
		{Name: "rpcordma.private.send_size", Text: "Inline send size", Layer: LayerRPCRDMAPrivate, Bit: 48, Width: 8, Kind: Dec, Values: rpcInlineSize},
		{Name: "rpcordma.private.recv_size", Text: "Inline receive size", Layer: LayerRPCRDMAPrivate, Bit: 56, Width: 8, Kind: Dec, Values: rpcInlineSize},

		{Name: "rpcordma.xid", Text: "XID", Layer: LayerRPCRDMA, Width: 32, Kind: Hex},
		{Name: "rpcordma.version", Text: "Version", Layer: LayerRPCRDMA, Bit: 32, Width: 32, Kind: Dec},
		{Name: "rpcordma.flow_control", Text: "Credits", Layer: LayerRPCRDMA, Bit: 64, Width: 32, Kind: Dec},
		{Name: "rpcordma.msg_type", Text: "Procedure", Layer: LayerRPCRDMA, Bit: 96, Width: 32, Kind: Dec, Values: nameIn(rdmaProcedures)},
		{Name: "rpcordma.errcode", Text: "Error", Layer: LayerRPCRDMA, Kind: Dec, Get: rpcErrorCode, Values: nameIn(rdmaErrors)},
		{Name: "rpcordma.reads_count", Text: "Read list: segments", Layer: LayerRPCRDMA, Kind: Dec, Get: rpcCount(chunkRead)},
		{Name: "rpcordma.writes_count", Text: "Write list: chunks", Layer: LayerRPCRDMA, Kind: Dec, Get: rpcCount(chunkWrite)},
		{Name: "rpcordma.reply_count", Text: "Reply chunk", Layer: LayerRPCRDMA, Kind: Dec, Get: rpcCount(chunkReply)},
	}, rpcSegmentFields()...), []Field{
		{Name: "rpc.xid", Text: "XID", Layer: LayerRPC, Width: 32, Kind: Hex},
		{Name: "rpc.msgtyp", Text: "Message", Layer: LayerRPC, Bit: 32, Width: 32, Kind: Dec, Values: rpcMessageName},
		{Name: "rpc.version", Text: "RPC version", Layer: LayerRPC, Kind: Dec, Get: rpcWord(0, 8)},
		{Name: "rpc.program", Text: "Program", Layer: LayerRPC, Kind: Dec, Get: rpcWord(0, 12), Values: nameIn(rpcPrograms)},
		{Name: "rpc.programversion", Text: "Program version", Layer: LayerRPC, Kind: Dec, Get: rpcWord(0, 16)},
		{Name: "rpc.procedure", Text: "Procedure", Layer: LayerRPC, Kind: Dec, Get: rpcWord(0, 20)},
		{Name: "nfs.procedure_v3", Text: "NFS version 3 procedure", Layer: LayerRPC, Kind: Dec, Get: nfsProcedure(3), Values: nfsName(3)},
		{Name: "nfs.procedure_v4", Text: "NFS version 4 procedure", Layer: LayerRPC, Kind: Dec, Get: nfsProcedure(4), Values: nfsName(4)},
		{Name: "rpc.auth.flavor", Text: "Credential's flavor", Layer: LayerRPC, Kind: Dec, Get: rpcWord(0, 24), Values: nameIn(rpcFlavors)},
		{Name: "rpc.replystat", Text: "Reply", Layer: LayerRPC, Kind: Dec, Get: rpcWord(1, 8), Values: rpcReplyName},
		{Name: "rpc.state_accept", Text: "Status", Layer: LayerRPC, Kind: Dec, Get: rpcAcceptStatus, Values: nameIn(rpcAcceptNames)},
	}...)
}

// rpcSegmentFields are the rows of chunk segments, one after the other.
func rpcSegmentFields() (rows []Field) {
	for i := range MaxUpperKeys {
		rows = append(rows,
			Field{Name: "rpcordma.segment.list", Text: "Segment of the list", Layer: LayerRPCRDMA, Kind: Text, Get: rpcSegment(i, segmentList), Values: rpcListName},
			Field{Name: "rpcordma.position", Text: "Position", Layer: LayerRPCRDMA, Kind: Dec, Get: rpcSegment(i, segmentPosition)},
			Field{Name: "rpcordma.rdma_handle", Text: "Handle", Layer: LayerRPCRDMA, Kind: Hex, Digits: 8, Get: rpcSegment(i, segmentHandle)},
			Field{Name: "rpcordma.rdma_length", Text: "Length", Layer: LayerRPCRDMA, Kind: Dec, Get: rpcSegment(i, segmentLength)},
			Field{Name: "rpcordma.rdma_offset", Text: "Offset", Layer: LayerRPCRDMA, Kind: Hex, Digits: 16, Get: rpcSegment(i, segmentOffset)},
		)
	}
	return rows
}

type segmentWord uint8

const (
	segmentList segmentWord = iota
	segmentPosition
	segmentHandle
	segmentLength
	segmentOffset
)

// rpcSegment reads a word of segment i of all lists.
func rpcSegment(i int, what segmentWord) func(*Packet, []byte) (uint64, bool) {
	return func(p *Packet, frame []byte) (uint64, bool) {
		if p.find(LayerRPCRDMA) < 0 {
			return 0, false
		}
		b := p.Payload(frame)
		h := parseRPC(b)
		if i >= min(h.parts, len(h.part)) {
			return 0, false
		}
		switch s := h.part[i]; what {
		case segmentList:
			return uint64(s.list), true
		case segmentPosition:
			if s.list != chunkRead {
				return 0, false
			}
			return uint64(be32(b[s.at-4:])), true
		case segmentHandle:
			return uint64(be32(b[s.at:])), true
		case segmentLength:
			return uint64(be32(b[s.at+4:])), true
		default:
			return be64(b[s.at+8:]), true
		}
	}
}

func rpcListName(v uint64) string {
	if v < numChunkLists {
		return chunkNames[v]
	}
	return ""
}

func rpcCount(list int) func(*Packet, []byte) (uint64, bool) {
	return func(p *Packet, frame []byte) (uint64, bool) {
		if p.find(LayerRPCRDMA) < 0 {
			return 0, false
		}
		h := parseRPC(p.Payload(frame))
		return uint64(h.counts[list]), h.whole
	}
}

func rpcErrorCode(p *Packet, frame []byte) (uint64, bool) {
	b := p.view(frame, LayerRPCRDMA, rpcRDMASize+4)
	if b == nil || be32(b[12:]) != rdmaError || p.PayloadLen() < rpcRDMASize+4 {
		return 0, false
	}
	return uint64(be32(b[16:])), true
}

// rpcBody is the captured part of the RPC message.
func rpcBody(p *Packet, frame []byte) []byte {
	at := p.find(LayerRPC)
	if at < 0 {
		return nil
	}
	b := p.Payload(frame)
	if at -= int(p.payload); at > len(b) {
		return nil
	}
	return b[at:]
}

// rpcWord reads a word of calls (0) or replies (1).
func rpcWord(kind uint32, at int) func(*Packet, []byte) (uint64, bool) {
	return func(p *Packet, frame []byte) (uint64, bool) {
		m := rpcBody(p, frame)
		if len(m) < at+4 || be32(m[4:]) != kind {
			return 0, false
		}
		return uint64(be32(m[at:])), true
	}
}

func nfsProcedure(version uint32) func(*Packet, []byte) (uint64, bool) {
	return func(p *Packet, frame []byte) (uint64, bool) {
		m := rpcBody(p, frame)
		if len(m) < rpcCallSize || be32(m[4:]) != 0 || be32(m[12:]) != programNFS || be32(m[16:]) != version {
			return 0, false
		}
		return uint64(be32(m[20:])), true
	}
}

func nfsName(version uint32) func(uint64) string {
	return func(v uint64) string {
		if procs := rpcProcedures(programNFS, version); v < uint64(len(procs)) {
			return procs[v]
		}
		return ""
	}
}

func rpcAcceptStatus(p *Packet, frame []byte) (uint64, bool) {
	v, ok := rpcAccepted(rpcBody(p, frame))
	return uint64(v), ok
}

func rpcMessageName(v uint64) string {
	switch v {
	case 0:
		return "call"
	case 1:
		return "reply"
	}
	return ""
}

func rpcReplyName(v uint64) string {
	switch v {
	case 0:
		return "accepted"
	case 1:
		return "denied"
	}
	return ""
}

// rpcInlineSize is what a coded inline size stands for (RFC 8797, 4.1).
func rpcInlineSize(v uint64) string { return decimal((v+1)*1024) + " bytes" }
