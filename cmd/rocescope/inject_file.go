package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rocescope/rocescope/inject/stream"
	"github.com/rocescope/rocescope/internal/config"
)

// injectFile is a file for `rocescope inject`: options by their long names, and the mix.
type injectFile struct {
	Operations []struct {
		Op     config.Text  `yaml:"op"`
		Size   *config.Text `yaml:"size"`
		Weight *config.Text `yaml:"weight"`
	} `yaml:"operations"`
	Options map[string]config.Text `yaml:",inline"`
}

// notInFiles are options that are about one call of the command.
var notInFiles = []string{"help", "color", "yes", "dry-run", "json", "quiet", "force", "metrics"}

// readFile reads the mix and those options that the command line does not have itself.
func (o *injectOptions) readFile(cmd *cobra.Command, name string) ([]stream.Op, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, errInput("%w", err)
	}
	doc, err := config.Parse(name, data)
	if err != nil {
		return nil, fileError(err)
	}
	var file injectFile
	if err := doc.Decode(&file); err != nil {
		return nil, fileError(err)
	}
	keys := slices.SortedFunc(maps.Keys(file.Options), func(a, b string) int { return file.Options[a].Line - file.Options[b].Line })
	for _, key := range keys {
		value, flag := file.Options[key], cmd.Flags().Lookup(key)
		switch {
		case flag == nil || slices.Contains(notInFiles, key):
			return nil, fileError(unknownKey(doc, key, value, cmd.Flags()))
		case flag.Changed: // the command line is right
			continue
		}
		if err := cmd.Flags().Set(key, value.Value); err != nil {
			return nil, fileError(doc.Error(value.Line, value.Column, "%s", strings.TrimPrefix(flagError(cmd, err).Error(), "--")))
		}
	}
	if len(file.Operations) == 0 {
		return nil, fileError(doc.Error(0, 0, "it has no operations: a list of {op: write, size: 4096, weight: 1}"))
	}
	var ops []stream.Op
	for _, part := range file.Operations {
		at := func(t config.Text, err error) error {
			return fileError(doc.Error(t.Line, t.Column, "%s", err))
		}
		op, err := o.operation(part.Op.Value)
		if err != nil {
			return nil, at(part.Op, err)
		}
		if part.Size != nil {
			if op.Sizes, err = stream.ParseSizes(part.Size.Value); err != nil {
				return nil, at(*part.Size, err)
			}
		}
		if part.Weight != nil {
			weighted, err := stream.ParseOp(part.Op.Value+"="+part.Weight.Value, op.Transport)
			if err != nil {
				return nil, at(*part.Weight, fmt.Errorf("%q is no weight: a number above 0", part.Weight.Value))
			}
			op.Weight = weighted.Weight
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// unknownKey is the error of a key that is no option.
func unknownKey(doc *config.Document, key string, at config.Text, flags *pflag.FlagSet) error {
	var known []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notInFiles, f.Name) {
			known = append(known, f.Name)
		}
	})
	known = append(known, "operations")
	if slices.Contains(notInFiles, key) {
		return doc.Error(at.Line, 0, "%q belongs on the command line: --%s", key, key)
	}
	if near := nearest(key, known); near != "" {
		return doc.Error(at.Line, 0, "%q is no key here; did you mean %q?", key, near)
	}
	return doc.Error(at.Line, 0, "%q is no key here; there are %s", key, strings.Join(known, ", "))
}

// fileError gives an error of a file its exit code, and a suggestion where a key is unknown.
func fileError(err error) error {
	var e *config.Error
	if errors.As(err, &e) && e.Key != "" {
		e.Reason += "; there are " + strings.Join(e.Known, ", ")
		if near := nearest(e.Key, e.Known); near != "" {
			e.Reason = fmt.Sprintf("%q is no key here; did you mean %q?", e.Key, near)
		}
	}
	return errUsage("%w", err)
}
