package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"sort"
)

// kind says where a file belongs.
type kind uint8

const (
	executable kind = iota
	document
	manual
	bash
	zsh
	fish
)

// places says where files lie in a tarball, and below / where Debian's policy has them.
var places = map[kind]struct{ tar, debian string }{
	executable: {"bin", "usr/bin"},
	document:   {".", "usr/share/doc/rocescope"},
	manual:     {"share/man/man1", "usr/share/man/man1"},
	bash:       {"share/bash-completion/completions", "usr/share/bash-completion/completions"},
	zsh:        {"share/zsh/site-functions", "usr/share/zsh/vendor-completions"},
	fish:       {"share/fish/vendor_completions.d", "usr/share/fish/vendor_completions.d"},
}

// file is one of what is packed.
type file struct {
	kind kind
	name string
	data []byte
}

func (f file) mode() int64 {
	if f.kind == executable {
		return 0o755
	}
	return 0o644
}

// pages asks the program for its manual and its completions.
func pages(program string) ([]file, error) {
	dir, err := os.MkdirTemp("", "rocescope-man-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program, err = filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	if _, err := run(program, "man", dir); err != nil {
		return nil, err
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	var all []file
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, file{kind: manual, name: filepath.Base(name), data: data})
	}
	for _, shell := range []struct {
		kind       kind
		name, file string
	}{{bash, "bash", "rocescope"}, {zsh, "zsh", "_rocescope"}, {fish, "fish", "rocescope.fish"}} {
		script, err := run(program, "completion", shell.name)
		if err != nil {
			return nil, err
		}
		all = append(all, file{kind: shell.kind, name: shell.file, data: script})
	}
	return all, nil
}

// run runs a program and returns what it prints; its errors go through.
func run(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}
