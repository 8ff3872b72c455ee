package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// debianVersion is the release's in Debian's order: a candidate comes before what it is one of.
func (r *release) debianVersion() string {
	return strings.Replace(strings.TrimPrefix(r.name(), "v"), "-", "~", 1)
}

// debian packs the files for dpkg.
func (r *release) debian(arch string, files []file) error {
	root, err := os.MkdirTemp("", "rocescope-deb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	size := 0
	put := func(name string, data []byte, mode int64) error {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		size += (len(data) + 1023) / 1024
		return os.WriteFile(at, data, os.FileMode(mode))
	}
	for _, f := range files {
		f, err := r.asDebian(f)
		if err != nil {
			return err
		}
		if err := put(filepath.Join(places[f.kind].debian, f.name), f.data, f.mode()); err != nil {
			return err
		}
	}
	control := fmt.Sprintf(controlText, r.debianVersion(), arch, size)
	if err := put("DEBIAN/control", []byte(control), 0o644); err != nil {
		return err
	}
	if err := os.Chmod(root, 0o755); err != nil { // it becomes the package's /
		return err
	}
	name := fmt.Sprintf("rocescope_%s_%s.deb", r.debianVersion(), arch)
	cmd := exec.Command("dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, filepath.Join(r.out, name))
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.stamp.time.Unix()))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("dpkg-deb: %w", err)
	}
	r.written = append(r.written, name)
	return nil
}

// asDebian gives a file the form that Debian's policy wants: compressed manual and change log, the licence as copyright.
func (r *release) asDebian(f file) (file, error) {
	switch {
	case f.name == "LICENSE":
		f.name, f.data = "copyright", append([]byte(copyrightHead), f.data...)
		return f, nil
	case f.name == "CHANGELOG.md":
		f.name = "changelog"
	case f.kind != manual && f.name != "THIRD-PARTY-LICENSES":
		return f, nil
	}
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return f, err
	}
	if _, err := z.Write(f.data); err != nil {
		return f, err
	}
	if err := z.Close(); err != nil {
		return f, err
	}
	f.name += ".gz"
	f.data = out.Bytes()
	return f, nil
}

const controlText = `Package: rocescope
Version: %s
Architecture: %s
Maintainer: rocescope developers <rocescope@rocescope.invalid>
Installed-Size: %d
Section: net
Priority: optional
Suggests: wireshark
Homepage: https://github.com/rocescope/rocescope
Description: protocol analyzer, traffic generator and fault injector for RDMA
 Rebuilds queue pairs, messages, retransmissions and refusals from captures of
 RoCE v2, RoCE v1, InfiniBand and iWARP, and says what went wrong and which rule
 was broken. Sends RDMA traffic at line rate over AF_XDP, converses as a
 software RNIC, breaks traffic on purpose and judges a device's answers.
`

const copyrightHead = `rocescope. The licences of the libraries that are linked into it are in
THIRD-PARTY-LICENSES.gz beside this file.

`
