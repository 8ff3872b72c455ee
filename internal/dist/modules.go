package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// module is one that is linked.
type module struct {
	path, version, sum string
}

// linked reads what a binary says of itself.
func linked(binary string) ([]module, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	mods := []module{{path: "std", version: info.GoVersion}}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		mods = append(mods, module{d.Path, d.Version, d.Sum})
	}
	return mods, nil
}

var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences joins the licence texts of the modules: nearly all of them ask that their text goes along.
func licences(mods []module) ([]byte, error) {
	dirs, err := folders()
	if err != nil {
		return nil, err
	}
	root, err := run("go", "env", "GOROOT")
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	dirs["std"] = strings.TrimSpace(string(root))
	var out bytes.Buffer
	out.WriteString("What is linked into rocescope, and under which terms.\n")
	for _, m := range mods {
		entries, err := os.ReadDir(dirs[m.path])
		if err != nil {
			return nil, fmt.Errorf("the source of %s %s: %w", m.path, m.version, err)
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !licenceName.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dirs[m.path], e.Name()))
			if err != nil {
				return nil, err
			}
			found = true
			fmt.Fprintf(&out, "\n%s\n%s %s: %s\n\n%s", strings.Repeat("=", 80), m.path, m.version, e.Name(), text)
		}
		if !found {
			return nil, fmt.Errorf("%s %s has no licence file in %s", m.path, m.version, dirs[m.path])
		}
	}
	return out.Bytes(), nil
}

// folders says where the modules' sources lie.
func folders() (map[string]string, error) {
	out, err := run("go", "list", "-m", "-json=Path,Dir", "all")
	if err != nil {
		return nil, fmt.Errorf("go list -m all: %w", err)
	}
	dirs := map[string]string{}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Dir string }
		if err := in.Decode(&m); errors.Is(err, io.EOF) {
			return dirs, nil
		} else if err != nil {
			return nil, err
		}
		dirs[m.Path] = m.Dir
	}
}
