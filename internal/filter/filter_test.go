package filter

import (
	"testing"

	"github.com/rocescope/rocescope/dissect"
)

func TestEmptyFilterMatchesEverything(t *testing.T) {
	for _, src := range []string{"", "  \n"} {
		f, err := Compile(src)
		if err != nil {
			t.Fatal(err)
		}
		if !f.Match(&dissect.Packet{}, nil, nil) {
			t.Errorf("%q does not match", src)
		}
	}
}
