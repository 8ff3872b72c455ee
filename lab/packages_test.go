package lab

import (
	"slices"
	"testing"
)

func TestParsePackages(t *testing.T) {
	const said = `'http://deb.example/debian/pool/p/perftest_4.5%2b0.17-1_amd64.deb' perftest_4.5+0.17-1_amd64.deb 266940 SHA256:00
'http://deb.example/debian/pool/e/ethtool_6.1-1_amd64.deb' ethtool_1%3a6.1-1_amd64.deb 196612 SHA256:00

`
	got, err := parsePackages(said)
	want := []Package{{"perftest", "4.5+0.17-1", "perftest_4.5+0.17-1_amd64.deb"}, {"ethtool", "1:6.1-1", "ethtool_1%3a6.1-1_amd64.deb"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parsePackages("'http://deb.example/x' x.deb 1 SHA256:00\n"); err == nil {
		t.Error("a file without a version is taken")
	}
}

func TestComplaint(t *testing.T) {
	if got := complaint("W: old lists\nE: cannot resolve\nE: some failed\n"); got != "cannot resolve" {
		t.Errorf("%q", got)
	}
}

func TestKeyTellsGuestsApart(t *testing.T) {
	list := []Package{{"a", "1", "a_1_all.deb"}}
	first := key(Plain, list, []byte("agent"))
	if key(Plain, list, []byte("agent")) != first {
		t.Error("the same guest has two keys")
	}
	if key(Plain, list, []byte("another")) == first || key(Plain, append(list, Package{"b", "1", "b_1_all.deb"}), []byte("agent")) == first {
		t.Error("two guests have one key")
	}
	if key(Storage, list, []byte("agent")) == first {
		t.Error("two kinds of guest have one key")
	}
}
