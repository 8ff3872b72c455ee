package bringup

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rocescope/rocescope/inject/rnic"
)

func (r *run) writeOne(ctx context.Context) (string, error) {
	if r.memory.RKey == 0 && r.memory.VA == 0 {
		return "", errNoMemory
	}
	r.fill(1)
	if err := r.write(ctx, 0, 1); err != nil {
		return "", err
	}
	return fmt.Sprintf("acknowledged; memory at %#x, rkey %#x", r.memory.VA, r.memory.RKey), nil
}

// guard is how many bytes around a message are looked at.
const guard = 64

// lengths are the sizes that are tried, as far as there is memory.
func (r *run) lengths() []int {
	mtu := r.mtu()
	all := []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, mtu - 1, mtu, mtu + 1, 2 * mtu, 3*mtu + 2, 4 * mtu, 8*mtu + 3}
	return slices.DeleteFunc(all, func(n int) bool { return n+2*guard > int(r.memory.Length) })
}

func (r *run) sizes(ctx context.Context) (string, error) {
	all := r.lengths()
	for _, n := range all {
		r.fill(n)
		if err := r.write(ctx, 0, n); err != nil {
			return "", fmt.Errorf("WRITE of %d bytes: %w", n, err)
		}
	}
	return fmt.Sprintf("%d sizes up to %d bytes acknowledged", len(all), all[len(all)-1]), nil
}

func (r *run) read(ctx context.Context) (string, error) {
	all := r.lengths()
	for _, n := range all {
		if err := r.roundTrip(ctx, n); err != nil {
			return "", fmt.Errorf("%d bytes: %w", n, err)
		}
	}
	return fmt.Sprintf("%d sizes up to %d bytes read back as they were written, and nothing beside them changed", len(all), all[len(all)-1]), nil
}

// roundTrip writes n bytes between two guards, and reads all of them back.
func (r *run) roundTrip(ctx context.Context, n int) error {
	whole := n + 2*guard
	want := bytes.Clone(r.fill(whole))
	if err := r.write(ctx, 0, whole); err != nil {
		return fmt.Errorf("WRITE of the surroundings: %w", err)
	}
	copy(want[guard:], r.fill(n))
	if err := r.write(ctx, guard, n); err != nil {
		return fmt.Errorf("WRITE: %w", err)
	}
	if _, err := r.readBack(ctx, guard, n); err != nil {
		return fmt.Errorf("READ: %w", err)
	}
	got, err := r.readBack(ctx, 0, whole)
	if err != nil {
		return fmt.Errorf("READ with the surroundings: %w", err)
	}
	return compare(got, want, n)
}

// compare says what the first difference is.
func compare(got, want []byte, n int) error {
	for i := range want {
		if got[i] == want[i] {
			continue
		}
		where := fmt.Sprintf("byte %d of the data", i-guard)
		switch {
		case i < guard:
			where = fmt.Sprintf("the byte %d before the data", guard-i)
		case i >= guard+n:
			where = fmt.Sprintf("the byte %d behind the data", i-guard-n+1)
		}
		return fmt.Errorf("%s is %#02x, and was to be %#02x", where, got[i], want[i])
	}
	return nil
}

// atomic adds, swaps, and tries to swap. Memory has the order of the target's processor, which the first answer tells.
func (r *run) atomic(ctx context.Context) (string, error) {
	at := int(-r.memory.VA & 7)
	const first, add, swapped = uint64(0x1122334455667788), uint64(0x0102030405060708), uint64(0xA1B2C3D4E5F60718)
	binary.LittleEndian.PutUint64(r.mr.Bytes()[outAt:], first)
	if err := r.write(ctx, at, 8); err != nil {
		return "", fmt.Errorf("WRITE of the value: %w", err)
	}
	do := func(w rnic.SendWR) (uint64, error) {
		w.SGL, w.RemoteVA = []rnic.SGE{r.mr.SGE(inAt, 8)}, uint64(at)
		clear(r.mr.Bytes()[inAt : inAt+8])
		err := r.post(ctx, w)
		return binary.NativeEndian.Uint64(r.mr.Bytes()[inAt:]), err
	}
	was, err := do(rnic.SendWR{Op: rnic.OpFetchAdd, CompareAdd: add})
	if err != nil {
		return "", fmt.Errorf("FETCH_ADD: %w", err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	value := first
	switch was {
	case first:
	case binary.BigEndian.Uint64(r.mr.Bytes()[outAt:]):
		order, value = binary.BigEndian, was
	default:
		return "", fmt.Errorf("FETCH_ADD: the value before is told as %#x, and %#x was written", was, first)
	}
	value += add
	if was, err = do(rnic.SendWR{Op: rnic.OpCompareSwap, CompareAdd: value, Swap: swapped}); err != nil {
		return "", fmt.Errorf("CMP_SWAP: %w", err)
	}
	if was != value {
		return "", fmt.Errorf("CMP_SWAP: the value before is told as %#x, and FETCH_ADD was to make it %#x", was, value)
	}
	if was, err = do(rnic.SendWR{Op: rnic.OpCompareSwap, CompareAdd: value, Swap: first}); err != nil {
		return "", fmt.Errorf("CMP_SWAP that fails: %w", err)
	}
	if was != swapped {
		return "", fmt.Errorf("CMP_SWAP that fails: the value before is told as %#x, and CMP_SWAP was to make it %#x", was, swapped)
	}
	got, err := r.readBack(ctx, at, 8)
	if err != nil {
		return "", fmt.Errorf("READ of the value: %w", err)
	}
	if is := order.Uint64(got); is != swapped {
		return "", fmt.Errorf("memory has %#x in the end, and was to have %#x: a CMP_SWAP whose comparison failed left it alone", is, swapped)
	}
	return fmt.Sprintf("FETCH_ADD, CMP_SWAP and one that fails; memory is %s", map[bool]string{true: "little-endian", false: "big-endian"}[order == binary.LittleEndian]), nil
}
