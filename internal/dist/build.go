package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var versionPattern = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

// stamp is when and what the source is, so that nothing in a release says when it was made.
type stamp struct {
	time   time.Time
	commit string // short; empty where git does not know
}

// lastCommit asks git. SOURCE_DATE_EPOCH goes before it, as reproducible builds have it.
func lastCommit() (s stamp, err error) {
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	out, gitErr := exec.Command("git", "log", "-1", "--format=%ct %h").Output()
	if fields := strings.Fields(string(out)); gitErr == nil && len(fields) == 2 {
		s.commit = fields[1]
		if seconds == "" {
			seconds = fields[0]
		}
	}
	if seconds == "" {
		return s, fmt.Errorf("git does not say when the last commit was (%w); set SOURCE_DATE_EPOCH", gitErr)
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("SOURCE_DATE_EPOCH=%s: seconds since 1970 are wanted", seconds)
	}
	s.time = time.Unix(n, 0).UTC()
	return s, nil
}

// name is the version that files carry.
func (r *release) name() string {
	if r.version != "" {
		return r.version
	}
	name := "0.0.0-" + r.stamp.time.Format("20060102")
	if r.stamp.commit != "" {
		name += "." + r.stamp.commit
	}
	return name
}

// build compiles the program; for the machine at hand where arch is empty.
func (r *release) build(out, arch string) error {
	link := "-s -w -buildid= -X github.com/rocescope/rocescope/internal/version.version=" + r.name()
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-pgo", "cmd/rocescope/analysis.pgo", "-ldflags", link, "-o", out, "./cmd/rocescope")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if arch != "" {
		cmd.Env = append(cmd.Env, "GOOS=linux", "GOARCH="+arch)
	}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}
