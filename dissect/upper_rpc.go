package dissect

import "sync"

// RPC-over-RDMA version 1 (RFC 8166): a transport header with lists of chunks,
// pieces of the sender's memory that the receiver reads or writes by RDMA, and
// behind it the beginning of an RPC message (RFC 5531), which NFS is made of.

const (
	rpcRDMASize    = 16
	rpcSize        = 8 // XID and kind of message
	rpcCallSize    = 24
	rpcPrivateSize = 8
	rpcMagic       = 0xF6AB0E18
	rpcVersion     = 2
	maxRPCAuth     = 400 // bytes of a credential or verifier (RFC 5531, 8.2)
)

// The procedures of the transport header.
const (
	rdmaMsg = iota
	rdmaNoMsg
	rdmaMsgP
	rdmaDone
	rdmaError
)

// The chunk lists, in the order of the wire.
const (
	chunkRead = iota
	chunkWrite
	chunkReply
	numChunkLists
)

// rpcHeader is what the transport header says.
type rpcHeader struct {
	proc   uint32
	end    int // where the RPC message begins; valid where whole
	whole  bool
	counts [numChunkLists]int // read: segments; write: chunks; reply: 0 or 1
	parts  int                // segments of all lists
	part   [MaxUpperKeys]rpcPart
}

// rpcPart is where a segment lies.
type rpcPart struct {
	list uint8
	at   int // of its handle; a read segment's position is in front of it
}

// parseRPC walks a transport header as far as it goes. Segments beyond those
// that there is room for are counted only.
func parseRPC(b []byte) (h rpcHeader) {
	if len(b) < rpcRDMASize || be32(b[4:]) != 1 {
		return h
	}
	h.proc = be32(b[12:])
	at := rpcRDMASize
	switch h.proc {
	case rdmaMsg, rdmaNoMsg:
	case rdmaMsgP:
		at += 8
	default:
		return h
	}
	word := func() (v uint32, ok bool) {
		if at+4 > len(b) {
			return 0, false
		}
		at += 4
		return be32(b[at-4:]), true
	}
	segment := func(list uint8) bool {
		if at+16 > len(b) {
			return false
		}
		if h.parts < len(h.part) {
			h.part[h.parts] = rpcPart{list, at}
		}
		h.parts++
		at += 16
		return true
	}
	for { // the read list
		more, ok := word()
		if !ok || more > 1 {
			return h
		}
		if more == 0 {
			break
		}
		if _, ok = word(); !ok || !segment(chunkRead) {
			return h
		}
		h.counts[chunkRead]++
	}
	for list := uint8(chunkWrite); list <= chunkReply; {
		more, ok := word()
		if !ok || more > 1 {
			return h
		}
		if more == 0 {
			list++
			continue
		}
		n, ok := word()
		if !ok || uint64(n)*16 > uint64(len(b)-at) {
			return h
		}
		for range n {
			segment(list)
		}
		h.counts[list]++
		if list == chunkReply { // one chunk, not a list
			break
		}
	}
	h.end, h.whole = at, true
	return h
}

// rpcMessage returns the RPC message behind the transport header, nil where that
// has none, or the capture does not have its beginning.
func rpcMessage(b []byte) []byte {
	h := parseRPC(b)
	if !h.whole || h.proc != rdmaMsg && h.proc != rdmaMsgP || len(b) < h.end+rpcSize {
		return nil
	}
	m := b[h.end:]
	if be32(m) != be32(b) || be32(m[4:]) > 1 { // both have the XID
		return nil
	}
	return m
}

// isRPCOpening reports whether a SEND is a call over RPC-over-RDMA: the XID stands
// twice, versions and lists are right.
func isRPCOpening(b []byte) bool {
	if len(b) < rpcRDMASize+12+rpcCallSize+8 || be32(b[12:]) != rdmaMsg || be32(b[8:]) == 0 || be32(b[8:]) > 0xFFFF {
		return false
	}
	m := rpcMessage(b)
	return len(m) >= rpcCallSize+8 && be32(m[4:]) == 0 && be32(m[8:]) == rpcVersion && be32(m[28:]) <= maxRPCAuth && be32(m[24:]) < 1<<20
}

func enlistRPC(p *Packet, b []byte, at int) {
	if len(b) < rpcRDMASize {
		return
	}
	p.enlist(LayerRPCRDMA, at)
	if m := rpcMessage(b); m != nil {
		p.enlist(LayerRPC, at+len(b)-len(m))
	}
}

// IsRPCPrivate reports whether private data is that of RPC-over-RDMA (RFC 8797):
// it begins with a number of its own.
func IsRPCPrivate(b []byte) bool { return len(b) >= rpcPrivateSize && be32(b) == rpcMagic && b[4] == 1 }

func enlistRPCPrivate(p *Packet, b []byte, at int) {
	if IsRPCPrivate(b) {
		p.enlist(LayerRPCRDMAPrivate, at)
	}
}

// rpcKind says whether a message is a call or a reply. Of one that is in a chunk
// the lists tell: a call lies in a read chunk at position 0, a reply in the reply
// chunk that the call offered.
func rpcKind(b []byte, h *rpcHeader) (call, reply bool) {
	if m := rpcMessage(b); m != nil {
		return be32(m[4:]) == 0, be32(m[4:]) == 1
	}
	if !h.whole || h.proc != rdmaNoMsg {
		return false, false
	}
	for _, s := range h.part[:min(h.parts, len(h.part))] {
		if s.list == chunkRead && be32(b[s.at-4:]) == 0 {
			return true, false
		}
	}
	return false, h.counts[chunkReply] > 0
}

func rpcFacts(b []byte, _ Upper) (f UpperFacts) {
	if len(b) < rpcRDMASize {
		return f
	}
	h := parseRPC(b)
	f.ID = uint64(be32(b))
	f.Request, f.Response = rpcKind(b, &h)
	if h.proc == rdmaError {
		f.Response, f.Failed = true, true
	}
	m := rpcMessage(b)
	switch {
	case f.Request:
		if len(m) >= rpcCallSize {
			f.Code = be32(m[20:])
		}
		for _, s := range h.part[:min(h.parts, len(h.part))] {
			f.addKey(be32(b[s.at:]))
		}
	case f.Response && m != nil:
		status, ok := rpcAccepted(m)
		f.Failed = len(m) >= 12 && be32(m[8:]) != 0 || ok && status != 0
	}
	return f
}

// rpcAccepted returns the status of a reply that accepts its call.
func rpcAccepted(m []byte) (status uint32, ok bool) {
	if len(m) < 20 || be32(m[4:]) != 1 || be32(m[8:]) != 0 {
		return 0, false
	}
	n := be32(m[16:])
	at := 20 + int(n+3)&^3
	if n > maxRPCAuth || at+4 > len(m) {
		return 0, false
	}
	return be32(m[at:]), true
}

func appendRPC(dst, b []byte, _ Upper) []byte {
	if len(b) < rpcRDMASize {
		return dst
	}
	h := parseRPC(b)
	m := rpcMessage(b)
	call, reply := rpcKind(b, &h)
	switch {
	case call && len(m) >= rpcCallSize:
		dst = append(append(dst, rpcProcedureName(be32(m[12:]), be32(m[16:]), be32(m[20:]))...), " call"...)
	case call:
		dst = append(dst, "RPC call in a chunk"...)
	case reply && m != nil:
		dst = append(dst, "RPC reply"...)
	case reply:
		dst = append(dst, "RPC reply in a chunk"...)
	default:
		dst = append(append(dst, "RPC-over-RDMA "...), named(rdmaProcedures(), uint64(be32(b[12:])))...)
	}
	dst = appendKX(dst, "XID", uint64(be32(b)))
	dst = appendKV(dst, "Credits", uint64(be32(b[8:])))
	if reply && m != nil && len(m) >= 12 {
		if be32(m[8:]) != 0 {
			dst = append(dst, ": denied"...)
		} else if status, ok := rpcAccepted(m); ok {
			dst = append(append(dst, ": "...), named(rpcAcceptNames(), uint64(status))...)
		}
	}
	var sums [numChunkLists]uint64
	for _, s := range h.part[:min(h.parts, len(h.part))] {
		sums[s.list] += uint64(be32(b[s.at+4:]))
	}
	for list, n := range h.counts {
		if n > 0 {
			dst = append(append(append(dst, ' '), chunkNames[list]...), " chunk of "...)
			dst = append(append(dst, decimal(sums[list])...), " bytes"...)
		}
	}
	return dst
}

var chunkNames = [numChunkLists]string{"read", "write", "reply"}

// rpcProcedureName names a procedure: "NFSv3 READ", "program 100005v3 procedure 1".
func rpcProcedureName(program, version, procedure uint32) string {
	name := rpcPrograms()[uint64(program)]
	if name == "" {
		name = "program " + decimal(uint64(program)) + " "
	}
	name += "v" + decimal(uint64(version)) + " "
	if procs := rpcProcedures(program, version); int(procedure) < len(procs) {
		return name + procs[procedure]
	}
	return name + "procedure " + decimal(uint64(procedure))
}

const (
	programNFS      = 100003
	programCallback = 0x40000000
)

// rpcProcedures are the procedures of a program's version (RFC 1813, 3; RFC 8881,
// 16 and 20).
func rpcProcedures(program, version uint32) []string {
	switch {
	case program == programNFS && version == 3:
		return nfs3Procedures[:]
	case program == programNFS && version == 4:
		return nfs4Procedures[:]
	case program == programCallback:
		return callbackProcedures[:]
	}
	return nil
}

var (
	nfs3Procedures = [...]string{
		"NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR",
		"RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
	}
	nfs4Procedures     = [...]string{"NULL", "COMPOUND"}
	callbackProcedures = [...]string{"CB_NULL", "CB_COMPOUND"}
)

var (
	rpcPrograms = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{100000: "RPCBIND", programNFS: "NFS", 100005: "MOUNT", 100021: "NLM", 100024: "STATUS", 100227: "NFSACL", programCallback: "NFS callback "}
	})
	rdmaProcedures = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{rdmaMsg: "RDMA_MSG", rdmaNoMsg: "RDMA_NOMSG", rdmaMsgP: "RDMA_MSGP", rdmaDone: "RDMA_DONE", rdmaError: "RDMA_ERROR"}
	})
	rdmaErrors = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{1: "version not supported", 2: "chunk cannot be used"}
	})
	rpcAcceptNames = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{0: "success", 1: "program unavailable", 2: "program version mismatch", 3: "procedure unavailable", 4: "garbage arguments", 5: "system error"}
	})
	rpcFlavors = sync.OnceValue(func() map[uint64]string {
		return map[uint64]string{0: "none", 1: "system", 3: "Diffie-Hellman", 6: "RPCSEC_GSS", 7: "TLS"}
	})
)
