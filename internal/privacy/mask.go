// Package privacy masks who talked and with which keys: addresses, GIDs, GUIDs, LIDs and the keys of memory, in
// frames, records and text. The same value has the same mask under one key, and no two values share one, so that all
// that can be told from masked results is what could be told from the originals, but for who it was.
//
// What it leaves alone is what makes traffic readable: queue pair and PSNs, memory's virtual addresses, ports,
// VLANs, times and sizes. Where masks are put on is the engine's affair: behind tracking, in front of every sink.
package privacy

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
)

// Mask is one key's masks. It serves one goroutine.
type Mask struct {
	prf   hash.Hash
	sum   []byte
	cache map[value]uint64
	crc   dissect.ICRC
	room  room
	types map[any]bool
}

// kind keeps values apart that are the same number.
type kind uint8

const (
	kindIPv4 kind = iota
	kindIPv6
	kindInterface // the lower half of a GID
	kindMulticast
	kindMAC
	kindGUID
	kindLID
	kindKey
)

type value struct {
	kind kind
	v    uint64
	in   uint64 // what it is the mask of depends on this too
}

// maxCache bounds the masks that are remembered: they can all be made again.
const maxCache = 1 << 16

// New makes the masks of a key; without one, of a key that nobody knows.
func New(key string) *Mask {
	secret := sha256.Sum256([]byte("rocescope privacy " + key))
	if key == "" {
		_, _ = rand.Read(secret[:]) // never fails
	}
	return &Mask{prf: hmac.New(sha256.New, secret[:]), cache: map[value]uint64{}, types: map[any]bool{}}
}

// random is what the key makes of a value: nobody without the key can tell it from chance.
func (m *Mask) random(x value, round int) uint64 {
	var b [18]byte
	b[0], b[1] = byte(x.kind), byte(round)
	binary.BigEndian.PutUint64(b[2:], x.v)
	binary.BigEndian.PutUint64(b[10:], x.in)
	m.prf.Reset()
	m.prf.Write(b[:])
	m.sum = m.prf.Sum(m.sum[:0])
	return binary.BigEndian.Uint64(m.sum)
}

// remembered is the mask that made makes of a value.
func (m *Mask) remembered(x value, made func() uint64) uint64 {
	if v, ok := m.cache[x]; ok {
		return v
	}
	if len(m.cache) >= maxCache {
		clear(m.cache)
	}
	v := made()
	m.cache[x] = v
	return v
}

// rounds of a Feistel network make a permutation that looks like chance.
const rounds = 6

// permute is another value of as many bits, an even number: a permutation, so that different values stay different.
func (m *Mask) permute(k kind, v, in uint64, bits int) uint64 {
	return m.remembered(value{k, v, in}, func() uint64 {
		half := bits / 2
		low := uint64(1)<<half - 1
		left, right := v>>half, v&low
		for i := range rounds {
			left, right = right, left^m.random(value{k, right, in}, i)&low
		}
		return left<<half | right
	})
}

// keepingPrefixes changes the lowest bits of a value, so that values with a common beginning have masks with a common
// beginning of the same length: subnets stay subnets.
func (m *Mask) keepingPrefixes(k kind, v, in uint64, bits int) uint64 {
	return m.remembered(value{k, v, in}, func() uint64 {
		out := v
		for i := bits - 1; i >= 0; i-- {
			out ^= m.random(value{k, v >> (i + 1), in}, i) & 1 << i
		}
		return out
	})
}

// Addr masks an address, a GID or a LID. The first byte of an IPv4 address stays, and of an IPv6 address what says
// how far it reaches: private stays private, link-local link-local. Multicast and unspecified addresses and loopback,
// which are nobody's, stay whole.
func (m *Mask) Addr(a dissect.Addr) dissect.Addr {
	switch {
	case a.IsZero():
		return a
	case a.IsLID():
		return dissect.Addr{Lo: m.LID(a.Lo)}
	case a.Is4():
		a.Lo = a.Lo&^0xFFFFFFFF | uint64(m.ipv4(uint32(a.Lo)))
		return a
	}
	if a.Hi == 0xFF02<<48 && a.Lo>>24 == 0x1FF { // solicited-node multicast: the end of an address
		a.Lo = a.Lo&^0xFFFFFF | m.permute(kindMulticast, a.Lo&0xFFFFFF, 0, 24)
		return a
	}
	n := a.Netip()
	if n.IsMulticast() || n.IsLoopback() {
		return a
	}
	hi := a.Hi
	if !n.IsLinkLocalUnicast() {
		hi = m.keepingPrefixes(kindIPv6, a.Hi, 0, 48)
	}
	return dissect.Addr{Hi: hi, Lo: m.permute(kindInterface, a.Lo, a.Hi, 64)}
}

func (m *Mask) ipv4(v uint32) uint32 {
	n := netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
	if n.IsUnspecified() || n.IsLoopback() || n.IsMulticast() || v == 1<<32-1 {
		return v
	}
	return uint32(m.keepingPrefixes(kindIPv4, uint64(v), 0, 24))
}

// MAC masks a hardware address, but for the two bits that say what kind of address it is. Multicast stays, but for what
// of it is the end of somebody's IPv6 address.
func (m *Mask) MAC(v uint64) uint64 {
	const group, local = 1 << 40, 2 << 40
	switch {
	case v == 0:
		return 0
	case v>>24 == 0x3333FF:
		return v&^0xFFFFFF | m.permute(kindMulticast, v&0xFFFFFF, 0, 24)
	case v&group != 0:
		return v
	}
	bits := m.permute(kindMAC, v>>42<<40|v&(group-1), v&local, 46)
	return bits>>40<<42 | v&local | bits&(group-1)
}

// LID masks a local identifier of native InfiniBand; multicast and permissive ones stay.
func (m *Mask) LID(v uint64) uint64 {
	const multicast = 0xC000
	if v == 0 || v >= multicast {
		return v
	}
	for {
		if v = m.permute(kindLID, v, 0, 16); v != 0 && v < multicast {
			return v
		}
	}
}

// GUID masks an identifier of a device.
func (m *Mask) GUID(v uint64) uint64 {
	if v == 0 {
		return 0
	}
	return m.permute(kindGUID, v, 0, 64)
}

// Key masks an rkey or a steering tag. 0 is that of nothing, and stays.
func (m *Mask) Key(v uint32) uint32 {
	if v == 0 {
		return 0
	}
	return uint32(m.permute(kindKey, uint64(v), 0, 32))
}
