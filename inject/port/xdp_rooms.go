package port

// rooms divide the memory that an AF_XDP socket sends from into the rooms of frames. A frame longer than a chunk has several,
// which follow each other. Shorter ones share a chunk: the fewer pages there are, and the less their beginnings lie at the same
// place of a page, the more of them the caches hold.
type rooms struct {
	mem   []byte
	size  uint32   // of a room
	descs int      // that a frame takes at most
	each  uint32   // rooms in a chunk
	at    []uint32 // address by slot: below 2^32, for frames are short and slots few
	// within is which room of its chunk each 64 bytes belong to.
	within [xdpChunk / roomStep]uint8
}

// roomStep is what rooms are multiples of: a cache line.
const roomStep = 64

func newRooms(slots, maxFrame int) rooms {
	r := rooms{size: uint32(maxFrame), descs: (maxFrame + xdpChunk - 1) / xdpChunk, each: 1, at: make([]uint32, slots)}
	step := uint32(r.descs) * xdpChunk
	if r.descs == 1 {
		step = (r.size + roomStep - 1) &^ (roomStep - 1)
		r.each = xdpChunk / step
		for i := range r.within {
			r.within[i] = uint8(min(uint32(i)*roomStep/step, r.each-1))
		}
	}
	for i := range r.at {
		slot := uint32(i)
		r.at[i] = slot/r.each*uint32(r.descs)*xdpChunk + slot%r.each*step
	}
	return r
}

// chunks is how many chunks all rooms take.
func (r *rooms) chunks() int { return (len(r.at) + int(r.each) - 1) / int(r.each) * r.descs }

// slot is the one whose room an address is in.
func (r *rooms) slot(addr uint64) uint32 {
	if r.descs > 1 {
		return uint32(addr / uint64(r.descs*xdpChunk))
	}
	return uint32(addr/xdpChunk)*r.each + uint32(r.within[addr%xdpChunk/roomStep])
}

// room is the room of a slot.
func (r *rooms) room(slot uint32) []byte {
	at := r.at[slot]
	return r.mem[at : at+r.size : at+r.size]
}
