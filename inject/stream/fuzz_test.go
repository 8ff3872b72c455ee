package stream

import (
	"testing"

	"github.com/rocescope/rocescope/dissect"
)

// FuzzArguments reads the small languages of the command line: rates, sizes, series, bytes, operations. What is accepted is within
// what was asked.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{"100Gbps", "1.5Mpps", "50%", "64", "64,128-4096,1M", "0", "1-", "-1", "18446744073709551616", "1e309", "0x10", "9G", "write", "READ", "uc", "1:2:3", "1+1", "1..5"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const most = 1 << 31
		_, _ = ParseRate(text)
		_, _ = ParseSizes(text)
		_, _ = ParseSeries(text, most)
		if n, err := ParseBytes(text, most); err == nil && n > most {
			t.Errorf("%q is %d bytes, which is more than %d", text, n, most)
		}
		_, _ = ParseTransport(text)
		for _, service := range []dissect.Transport{dissect.RC, dissect.UC, dissect.UD} {
			_, _ = ParseOp(text, service)
		}
	})
}
