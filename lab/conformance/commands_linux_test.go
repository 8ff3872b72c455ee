package conformance

import (
	"errors"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/inject/suite"
)

// told is a hook whose queue pairs have numbers.
type told struct{ asked []suite.Command }

func (d *told) Close() error { return nil }

func (d *told) Do(c *suite.Command) (*suite.Answer, error) {
	d.asked = append(d.asked, *c)
	if c.Do == "create" {
		return &suite.Answer{Numbers: &suite.Numbers{QPN: 0x22, PSN: *c.PSN, RKey: 7, VA: 0x1000, Length: 65536}}, nil
	}
	return &suite.Answer{}, nil
}

func TestUses(t *testing.T) {
	for i := range Uses {
		d := &told{}
		args, err := Uses[i].expand(d, "rkey=0x1,va=0x2,length=3", t.TempDir())
		text := strings.Join(args, " ")
		if err != nil || strings.Contains(text, "{") || !strings.HasSuffix(text, "-i host0") {
			t.Errorf("%s: %v, %v", Uses[i].Name, args, err)
		}
		for _, c := range d.asked {
			if c.Do == "connect" && (c.Remote.QPN != firstQPN && c.QP == "subject" || c.Remote.QPN != firstQPN+1 && c.QP == "other") {
				t.Errorf("%s: %s is connected to %#x", Uses[i].Name, c.QP, c.Remote.QPN)
			}
		}
	}
	for _, bad := range []Use{{Args: "bringup {nothing}"}, {Args: "replay {file:nothing}"}} {
		if _, err := bad.expand(&told{}, "", t.TempDir()); err == nil {
			t.Errorf("%q passed", bad.Args)
		}
	}
}

func TestUseJudge(t *testing.T) {
	r := UseResult{Use: Use{Name: "one", Args: "bringup {it} {cm}", Code: 3, Says: "FAILED +connect"}, Said: "FAILED   connect"}
	if err := r.judge(3); err != nil {
		t.Error(err)
	}
	if err := r.judge(0); err == nil {
		t.Error("another exit code passed")
	}
	r.Said = "ok connect"
	if err := r.judge(3); err == nil {
		t.Error("another text passed")
	}
	r.Failed = errors.New("it ended\nearly").Error()
	if text := UsePage("6.1", []UseResult{r}); !strings.Contains(text, "| one | `rocescope bringup IT -p 7471 --memory MEMORY` | 3 | **failed**: it ended |") {
		t.Error(text)
	}
}
