package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/rocescope/rocescope/internal/privacy"
)

// privacyOptions are those of the commands whose results may go to strangers.
type privacyOptions struct {
	on  bool
	key string
}

func (o *privacyOptions) add(f *pflag.FlagSet) {
	f.BoolVar(&o.on, "privacy", false, "mask IP and MAC addresses, GIDs and rkeys, the same one always the same way, and show no payload")
	f.StringVar(&o.key, "privacy-key", "", "a `secret` that decides the masks, so that several runs have the same; without, each run has its own")
}

// mask is what the options ask for: nil for nothing.
func (o *privacyOptions) mask() *privacy.Mask {
	if !o.on && o.key == "" {
		return nil
	}
	return privacy.New(o.key)
}

// maskedText is a text as it may be shown.
func maskedText(m *privacy.Mask, text string) string {
	if m == nil {
		return text
	}
	return m.Text(text)
}

// maskedFilter is a filter as it may be shown: one that names keys or identifiers is not.
func maskedFilter(m *privacy.Mask, filter string) string {
	if m == nil || filter == "" {
		return filter
	}
	for _, word := range []string{"key", "ieth", "stag", "guid", "lid", "[", "contains", "matches"} {
		if strings.Contains(filter, word) {
			return "left out (--privacy)"
		}
	}
	return m.Text(filter)
}
