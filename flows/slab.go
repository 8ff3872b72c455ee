package flows

const chunkBits = 10

// mostConnections leaves a part of what a streamRef can name to those that are
// held while their other side is looked for, which come on top.
const mostConnections = 7 << 20

func (t *Tracker) conn(slot uint32) *conn { return &t.slab[slot>>chunkBits][slot&(1<<chunkBits-1)] }

// eachConn calls f for every live connection in the order of the slab.
func (t *Tracker) eachConn(f func(*conn)) {
	for _, chunk := range t.slab {
		for i := range chunk {
			if chunk[i].flags&connLive != 0 {
				f(&chunk[i])
			}
		}
	}
}

// newConn returns a fresh connection.
func (t *Tracker) newConn() (slot uint32, c *conn) {
	if t.live >= t.opt.MaxConnections && !t.replaying { // which may be an eviction's doing
		t.evict()
	}
	if n := len(t.free); n > 0 {
		slot = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		n := len(t.slab)
		if n == 0 || len(t.slab[n-1]) == cap(t.slab[n-1]) {
			t.slab = append(t.slab, make([]conn, 0, 1<<chunkBits))
			n++
		}
		chunk := &t.slab[n-1]
		*chunk = (*chunk)[:len(*chunk)+1]
		slot = uint32((n-1)<<chunkBits + len(*chunk) - 1)
	}
	t.live++
	c = t.conn(slot)
	*c = conn{id: t.nextID(), flags: connLive}
	return slot, c
}

// nextID numbers connections.
func (t *Tracker) nextID() uint32 {
	if t.lastID++; t.lastID == 0 {
		t.lastID++ // 0 is no connection
	}
	if t.share != nil {
		t.share.born = append(t.share.born, t.share.at)
	}
	return t.lastID
}

// enter puts the stream in direction d of a connection into the index.
func (t *Tracker) enter(slot uint32, d Direction) {
	k := t.conn(slot).key(d)
	t.idx.insert(t, refOf(slot, d), t.idx.hash(&k))
}

// leave takes it out.
func (t *Tracker) leave(slot uint32, d Direction) {
	k := t.conn(slot).key(d)
	t.idx.remove(refOf(slot, d), t.idx.hash(&k))
}
