package flows

import (
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/internal/testkit"
)

// TestPathsOfRealCaptures: on captures of a real stack, nothing about hosts,
// pauses and memory is above a note, memory is read as it was written, and
// every finding says something.
func TestPathsOfRealCaptures(t *testing.T) {
	mine := map[FindingID]bool{}
	for id := findCENoCNP; id <= findWaiting; id++ {
		mine[id] = true
	}
	var total ShadowMemory
	for _, file := range testkit.Files(t, testkit.RXE(t), "*.pcap") {
		s := lookWith(Options{Shadow: true}, 256, testkit.ReadCapture(t, file))
		for i := range s.Findings {
			if f := &s.Findings[i]; mine[f.ID] && f.Severity() > Note {
				t.Errorf("%s: %s: %s", filepath.Base(file), f.ID, f.Summary)
			}
		}
		total.Compared += s.Shadow.Compared
		total.Unknown += s.Shadow.Unknown
		for i := range s.HostPairs {
			for _, p := range s.HostPairs[i].Paths {
				if p.Checksums.Wrong > 0 || p.CNPs != 0 && filepath.Base(file)[:5] != "probe" {
					t.Errorf("%s: %+v", filepath.Base(file), p)
				}
			}
		}
	}
	t.Logf("%d bytes compared, %d unknown", total.Compared, total.Unknown)
	if total.Compared == 0 {
		t.Error("nothing was compared")
	}
}
