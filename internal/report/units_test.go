package report

import (
	"math"
	"testing"
	"time"
)

func TestUnits(t *testing.T) {
	for got, want := range map[string]string{
		Count(0):                     "0",
		Count(999):                   "999",
		Count(1000):                  "1,000",
		Count(1234567):               "1,234,567",
		Count(math.MaxUint64):        "18,446,744,073,709,551,615",
		Plural(1, "packet"):          "1 packet",
		Plural(0, "message"):         "0 messages",
		Plural(1500, "NAK"):          "1,500 NAKs",
		Bytes(1023):                  "1023 B",
		Bytes(1024):                  "1.0 KiB",
		Bytes(1024*1024 - 1):         "1.0 MiB",
		Bytes(300 << 20):             "300 MiB",
		Bytes(math.MaxUint64):        "16.0 EiB",
		BitRate(0):                   "0 bit/s",
		BitRate(999.7):               "1.00 kbit/s",
		BitRate(94.123e9):            "94.12 Gbit/s",
		BitRate(400e9):               "400 Gbit/s",
		Duration(0):                  "0 ns",
		Duration(999):                "999 ns",
		Duration(1500):               "1.50 us",
		Duration(12_340):             "12.3 us",
		Duration(999_600):            "1.00 ms",
		Duration(123_456_789):        "123 ms",
		Duration(1_204_000_000):      "1.20 s",
		Duration(125 * time.Second):  "2m05s",
		Duration(7384 * time.Second): "2h03m",
		Duration(100 * time.Hour):    "4 days",
		Duration(-12_340):            "-12.3 us",
		QPN(0x11):                    "0x000011",
		PSN(0xfffff0):                "0xfffff0",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
