package tui

import (
	"fmt"
	"testing"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/internal/testkit"
	"github.com/rocescope/rocescope/tui/cells"
)

// TestGoldenScreens pins every view at three sizes, in a dark theme with its colours and as plain text.
func TestGoldenScreens(t *testing.T) {
	sample, credits := sampleFile(t, samples.Default), creditCapture(t, 1)
	views := []struct {
		name string
		keys []string
	}{
		{"overview", nil},
		{"connections", []string{"2"}},
		{"connection", []string{"2", "enter"}},
		{"charts", []string{"2", "enter", "tab", "tab", "tab", "z", "down", "down", "right"}},
		{"messages", []string{"3"}},
		{"message", []string{"3", "enter"}},
		{"packets", []string{"4", "ctrl-g", "88", "enter"}},
		{"ladder", []string{"6", "d"}},
		{"findings", []string{"6"}},
		{"help", []string{"?"}},
		{"filter", []string{"/", "bth.op"}},
		{"endpoints", []string{"7"}},
		{"traffic", []string{"8"}},
		{"suite", []string{"8"}},
	}
	for _, size := range []struct{ w, h int }{{80, 24}, {120, 40}, {200, 60}} {
		for _, v := range views {
			name := fmt.Sprintf("%s_%dx%d", v.name, size.w, size.h)
			t.Run(name, func(t *testing.T) {
				path := sample
				if v.name == "charts" { // answers of the sample say nothing of credits
					path = credits
				}
				u := openUser(t, path, size.w, size.h)
				u.s.o.Controls = &fakeControls{state: Running, suite: v.name == "suite"}
				u.press(v.keys...)
				c := u.s.draw()
				testkit.Golden(t, "screens/"+name+".mono", []byte(c.Plain()))
				testkit.Golden(t, "screens/"+name+".dark", []byte((&cells.Output{Theme: cells.ThemeByName("dark"), Depth: cells.Color256}).Lines(c)+"\n"))
			})
		}
	}
}
