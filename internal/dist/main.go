// Command dist makes what a release consists of, in one folder: for each architecture a tarball and a Debian package with the
// static binary, manual, completions and the licences of all that is linked; a bill of materials (SPDX); the checksums of all.
// It builds nothing but the program, and uses no tools but Go's and Debian's dpkg-deb. The same commit gives the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	r := release{}
	arches := flag.String("arch", "amd64,arm64", "architectures, as Go names them")
	flag.StringVar(&r.version, "version", "", "of the release, as v1.2.3; without it a snapshot of the commit is made")
	flag.StringVar(&r.out, "out", "dist", "folder to write to; what it holds of an earlier run is replaced")
	flag.Parse()
	if err := r.make(strings.Split(*arches, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// release is one run.
type release struct {
	version string // v1.2.3, or empty
	out     string
	stamp   stamp // of the commit
	pages   []file
	written []string // names in out
}

func (r *release) make(arches []string) error {
	if r.version != "" && !versionPattern.MatchString(r.version) {
		return fmt.Errorf("-version %s: a release is called v1.2.3 or v1.2.3-rc1", r.version)
	}
	var err error
	if r.stamp, err = lastCommit(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	// Manual and completions are the program's own, which has to run here for that.
	native := filepath.Join(r.out, "rocescope")
	if err := r.build(native, ""); err != nil {
		return err
	}
	defer os.Remove(native)
	if r.pages, err = pages(native); err != nil {
		return err
	}
	for _, arch := range arches {
		if err := r.pack(arch); err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
	}
	if err := r.sums(); err != nil {
		return err
	}
	for _, name := range r.written {
		fmt.Println(filepath.Join(r.out, name))
	}
	return nil
}

// pack makes the files of one architecture.
func (r *release) pack(arch string) error {
	binary := filepath.Join(r.out, "rocescope-"+arch)
	if err := r.build(binary, arch); err != nil {
		return err
	}
	defer os.Remove(binary)
	mods, err := linked(binary)
	if err != nil {
		return err
	}
	licences, err := licences(mods)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	base := fmt.Sprintf("rocescope-%s-linux-%s", strings.TrimPrefix(r.name(), "v"), arch)
	bill, err := r.bill(base, mods)
	if err != nil {
		return err
	}
	if err := r.write(base+".spdx.json", bill); err != nil {
		return err
	}
	all := append([]file{
		{kind: executable, name: "rocescope", data: program},
		{kind: document, name: "THIRD-PARTY-LICENSES", data: licences},
	}, r.pages...)
	for _, name := range []string{"README.md", "README.zh-CN.md", "CHANGELOG.md", "LICENSE"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("%w (dist runs in the folder of go.mod)", err)
		}
		all = append(all, file{kind: document, name: name, data: data})
	}
	if err := r.tarball(base, all); err != nil {
		return err
	}
	return r.debian(arch, all)
}

// write puts a file of the release in place.
func (r *release) write(name string, data []byte) error {
	r.written = append(r.written, name)
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}
