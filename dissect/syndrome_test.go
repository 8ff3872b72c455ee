package dissect

import (
	"testing"
	"time"
)

func TestSyndromes(t *testing.T) {
	for _, c := range []struct {
		first, last Syndrome
		kind        SyndromeKind
	}{
		{0x00, 0x1F, KindACK}, {0x20, 0x3F, KindRNR}, {0x40, 0x5F, KindReserved}, {0x60, 0x7F, KindNAK},
	} {
		for s := c.first; s <= c.last; s++ {
			if s.Kind() != c.kind || s.Value() != uint8(s-c.first) {
				t.Errorf("%#x: kind %v, value %d", uint8(s), s.Kind(), s.Value())
			}
		}
	}
	for s, name := range map[Syndrome]string{
		0x00: "ACK", 0x1F: "ACK", 0x2D: "RNR NAK", 0x40: "reserved",
		0x60: "NAK: PSN sequence error", 0x61: "NAK: invalid request", 0x62: "NAK: remote access error",
		0x63: "NAK: remote operational error", 0x64: "NAK: invalid RD request", 0x65: "NAK: reserved", 0x7F: "NAK: reserved",
	} {
		if s.String() != name {
			t.Errorf("%#x is %q, want %q", uint8(s), s, name)
		}
	}
	if NAKSequence != 0 || NAKInvalidRequest != 1 || NAKRemoteAccess != 2 || NAKRemoteOperational != 3 || NAKInvalidRD != 4 || NumNAKCodes != 5 {
		t.Error("NAK codes have wrong numbers")
	}
}

func TestCredits(t *testing.T) {
	want := [31]int{
		0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
		256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
	}
	for code, n := range want {
		if got, ok := Credits(uint8(code)); !ok || got != n {
			t.Errorf("code %#x: %d, %v; want %d", code, got, ok, n)
		}
	}
	if _, ok := Credits(NoCreditInfo); ok {
		t.Error("code 0x1F says nothing of credits")
	}
}

func TestRNRTimers(t *testing.T) {
	want := [32]float64{ // milliseconds
		655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
		2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
	}
	for code, ms := range want {
		if got := RNRTimer(uint8(code)); got != time.Duration(ms*1000+0.5)*time.Microsecond {
			t.Errorf("code %d: %v, want %v ms", code, got, ms)
		}
	}
}

func TestTimeouts(t *testing.T) {
	for n, want := range map[uint8]time.Duration{
		1: 8192, 8: 1048576, 10: 4194304, 12: 16777216, 14: 67108864, 16: 268435456, 18: 1073741824, 20: 4294967296, 31: 8796093022208,
	} {
		if got := AckTimeout(n); got != want {
			t.Errorf("AckTimeout(%d) is %v, want %v", n, got, want)
		}
		if got := CMTimeout(n); got != want {
			t.Errorf("CMTimeout(%d) is %v, want %v", n, got, want)
		}
	}
	if AckTimeout(0) != 0 {
		t.Error("an ACK time-out of 0 is none")
	}
	if CMTimeout(0) != 4096 {
		t.Error("a CM time of 0 is 4.096 µs")
	}
}

func TestMTU(t *testing.T) {
	for code, n := range [...]int{0, 256, 512, 1024, 2048, 4096, 0, 0} {
		if got := MTUBytes(uint8(code)); got != n {
			t.Errorf("code %d: %d bytes, want %d", code, got, n)
		}
		if n > 0 && !ValidMTU(n) {
			t.Errorf("%d is a path MTU", n)
		}
	}
	for _, n := range []int{-256, 0, 1, 128, 255, 257, 768, 1500, 4095, 8192, 9000} {
		if ValidMTU(n) {
			t.Errorf("%d is no path MTU", n)
		}
	}
}
