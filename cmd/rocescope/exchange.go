package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/exchange"
)

// exchangeFiles is the option by which the user describes how programs tell each other their queue pairs.
type exchangeFiles []string

func (o *exchangeFiles) add(f *pflag.FlagSet) {
	f.StringArrayVar((*[]string)(o), "exchange", nil, "a `file` that describes how programs tell each other their queue pairs over TCP (docs/exchanges.md); may be repeated; else ROCESCOPE_EXCHANGES, else exchanges.yaml in the user's folder for rocescope")
}

// read reads the files.
func (o exchangeFiles) read() ([]flows.Exchange, error) {
	files, asked := []string(o), true
	if len(files) == 0 {
		if name := os.Getenv("ROCESCOPE_EXCHANGES"); name != "" {
			files = []string{name}
		} else if dir, err := os.UserConfigDir(); err == nil {
			files, asked = []string{filepath.Join(dir, "rocescope", "exchanges.yaml")}, false
		}
	}
	var all []flows.Exchange
	owner := map[uint16]string{}
	for _, name := range files {
		some, err := exchange.ReadFile(name)
		var e *os.PathError
		switch {
		case (errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)) && !asked: // another user's home, as under sudo
			return nil, nil
		case errors.As(err, &e):
			return nil, errUsage("the description of exchanges cannot be read: %w", err)
		case err != nil:
			return nil, errUsage("%w", err)
		}
		for i := range some {
			for _, port := range some[i].Ports {
				if owner[port] != "" {
					return nil, errUsage("%s: port %d is that of an exchange in %s already: a connection has one exchange", name, port, owner[port])
				}
			}
		}
		for i := range some {
			for _, port := range some[i].Ports {
				owner[port] = name
			}
		}
		all = append(all, some...)
	}
	return all, nil
}
