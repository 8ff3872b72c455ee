package main

import (
	"slices"
	"testing"
)

func TestParseList(t *testing.T) {
	got := parseList(`FuzzDecode
FuzzRoundTrip
ok  	example.org/m/dissect	0.004s
?   	example.org/m/cmd	[no test files]
ok  	example.org/m/flows	0.003s
FuzzFilter
ok  	example.org/m/internal/filter	0.004s
`)
	want := []target{
		{"example.org/m/dissect", "FuzzDecode"},
		{"example.org/m/dissect", "FuzzRoundTrip"},
		{"example.org/m/internal/filter", "FuzzFilter"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
