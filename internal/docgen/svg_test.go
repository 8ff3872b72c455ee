package main

import (
	"encoding/xml"
	"strings"
	"testing"
)

func TestScreensAreRead(t *testing.T) {
	rows := parseScreen("a\x1b[1;38;5;196mb\x1b[0;7m<\x1b[0m\n\x1b[44;93mé\n", 3, 2)
	want := [][]glyph{
		{{'a', look{}}, {'b', look{fg: "#ff0000", bold: true}}, {'<', look{reverse: true}}},
		{{'é', look{fg: palette16[11], bg: palette16[4]}}},
	}
	if len(rows) != 2 || len(rows[0]) != 3 || len(rows[1]) != 1 {
		t.Fatalf("rows %v", rows)
	}
	for y := range want {
		for x := range want[y] {
			if rows[y][x] != want[y][x] {
				t.Errorf("%d, %d: %+v, want %+v", x, y, rows[y][x], want[y][x])
			}
		}
	}
	picture := string(svg(rows, "a & b"))
	if err := xml.Unmarshal([]byte(picture), new(struct{})); err != nil {
		t.Errorf("%v:\n%s", err, picture)
	}
	for _, text := range []string{">&lt;</text>", "fill=\"#ff0000\" class=\"b\">b<", "a &amp; b", "fill=\"" + ownFg + "\"/>"} {
		if !strings.Contains(picture, text) {
			t.Errorf("no %s in\n%s", text, picture)
		}
	}
}

func TestPaletteIsTheTerminals(t *testing.T) {
	for n, want := range map[int]string{16: "#000000", 21: "#0000ff", 231: "#ffffff", 232: "#080808", 255: "#eeeeee", 67: "#5f87af"} {
		if got := color256(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
