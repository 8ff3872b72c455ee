// Package version says which rocescope this is. It does not know who shows it, nor where.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by the linker where the build knows better than the binary itself does (a release, a distribution's package):
//
//	go build -ldflags "-X github.com/rocescope/rocescope/internal/version.version=v1.2.3"
var (
	version string
	commit  string
	date    string
)

// Info is what a binary knows about its own origin. Empty fields are not known.
type Info struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with uncommitted changes
	Date     string `json:"date,omitempty"`     // of the commit, RFC 3339
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get joins what the linker was told with what the Go tool chain recorded.
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return from(build)
}

func from(build *debug.BuildInfo) Info {
	info := Info{
		Version:  version,
		Commit:   commit,
		Date:     date,
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build != nil {
		if info.Version == "" && build.Main.Version != "(devel)" {
			info.Version = build.Main.Version
		}
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				if info.Commit == "" {
					info.Commit = s.Value
				}
			case "vcs.time":
				if info.Date == "" {
					info.Date = s.Value
				}
			case "vcs.modified":
				info.Modified = s.Value == "true"
			}
		}
	}
	if info.Version == "" {
		info.Version = "devel"
	}
	return info
}

// String is the one line that `rocescope version` prints.
func (i Info) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rocescope %s", i.Version)
	var extra []string
	if i.Commit != "" {
		short := i.Commit[:min(12, len(i.Commit))]
		if i.Modified {
			short += " with local changes"
		}
		extra = append(extra, short)
	}
	if i.Date != "" {
		extra = append(extra, i.Date)
	}
	if len(extra) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(extra, ", "))
	}
	fmt.Fprintf(&b, ", %s, %s", i.Go, i.Platform)
	return b.String()
}
