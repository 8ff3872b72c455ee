package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestFromBuildInfo(t *testing.T) {
	info := from(&debug.BuildInfo{
		Main: debug.Module{Version: "v0.3.0"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
			{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
			{Key: "vcs.modified", Value: "true"},
		},
	})
	line := info.String()
	if want := "rocescope v0.3.0 (0123456789ab with local changes, 2026-01-02T03:04:05Z), go"; !strings.HasPrefix(line, want) {
		t.Errorf("got  %q\nwant %q…", line, want)
	}
}

func TestWithoutBuildInfo(t *testing.T) {
	if got := from(nil).Version; got != "devel" {
		t.Errorf("version without any information is %q, want devel", got)
	}
}

func TestLinkerWins(t *testing.T) {
	version, commit = "v9.9.9", "feed"
	defer func() { version, commit = "", "" }()
	info := from(&debug.BuildInfo{
		Main:     debug.Module{Version: "v0.3.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}},
	})
	if info.Version != "v9.9.9" || info.Commit != "feed" {
		t.Errorf("the linker's values lost: %+v", info)
	}
}
