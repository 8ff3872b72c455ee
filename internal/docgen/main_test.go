package main

import (
	"errors"
	"strings"
	"testing"
)

func TestFill(t *testing.T) {
	echo := func(args ...string) ([]byte, error) { return []byte(strings.Join(args, "+") + "\n\n"), nil }
	got, err := fill([]byte("a\n<!-- output: rocescope demo --list -->\nold\n<!-- /output -->\nb\n<!-- output: rocescope -->\n<!-- /output -->\n"), echo)
	if err != nil {
		t.Fatal(err)
	}
	want := "a\n<!-- output: rocescope demo --list -->\n```\n$ rocescope demo --list\ndemo+--list\n```\n<!-- /output -->\nb\n" +
		"<!-- output: rocescope -->\n```\n$ rocescope\n\n```\n<!-- /output -->\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	again, err := fill(got, echo)
	if err != nil || string(again) != want {
		t.Errorf("filling twice changes the document: %v\n%s", err, again)
	}
}

func TestFillRefuses(t *testing.T) {
	echo := func(...string) ([]byte, error) { return nil, nil }
	if _, err := fill([]byte("<!-- output: rocescope demo -->\nno end\n"), echo); err == nil {
		t.Error("a block without an end was not noticed")
	}
	broken := func(...string) ([]byte, error) { return nil, errors.New("broken") }
	if _, err := fill([]byte("<!-- output: rocescope demo -->\n<!-- /output -->\n"), broken); err == nil {
		t.Error("a failing command was not noticed")
	}
}
