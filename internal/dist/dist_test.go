package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testRelease(t *testing.T, version string) *release {
	return &release{version: version, out: t.TempDir(), stamp: stamp{time.Unix(1_700_000_000, 0).UTC(), "abc1234"}}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct{ version, name, debian string }{
		{"v1.2.3", "v1.2.3", "1.2.3"},
		{"v1.2.3-rc1", "v1.2.3-rc1", "1.2.3~rc1"},
		{"", "0.0.0-20231114.abc1234", "0.0.0~20231114.abc1234"},
	} {
		r := testRelease(t, c.version)
		if got := [...]string{r.name(), r.debianVersion()}; got != [...]string{c.name, c.debian} {
			t.Errorf("%q is %q", c.version, got)
		}
	}
	for _, bad := range []string{"1.2.3", "v1.2", "v1.2.3 4", "v1.2.3-"} {
		if versionPattern.MatchString(bad) {
			t.Errorf("%q passes for a version", bad)
		}
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is not here to say which version is the newer one")
	}
	for _, order := range [][2]string{{"0.0.0~20231114.abc1234", "1.2.3~rc1"}, {"1.2.3~rc1", "1.2.3"}, {"1.2.3", "1.10.0"}} {
		if err := exec.Command("dpkg", "--compare-versions", order[0], "lt", order[1]).Run(); err != nil {
			t.Errorf("dpkg does not take %s for older than %s: %v", order[0], order[1], err)
		}
	}
}

// TestTarball unpacks one again: everything is in its place, and a second one is the same.
func TestTarball(t *testing.T) {
	files := []file{
		{executable, "rocescope", []byte("program")},
		{document, "LICENSE", []byte("text")},
		{manual, "rocescope.1", []byte(".TH")},
		{bash, "rocescope", []byte("complete")},
		{zsh, "_rocescope", []byte("#compdef")},
		{fish, "rocescope.fish", []byte("complete -c")},
	}
	var made [2][]byte
	for i := range made {
		r := testRelease(t, "v1.0.0")
		if err := r.tarball("rocescope-1.0.0", files); err != nil {
			t.Fatal(err)
		}
		if err := r.sums(); err != nil {
			t.Fatal(err)
		}
		made[i], _ = os.ReadFile(filepath.Join(r.out, "rocescope-1.0.0.tar.gz"))
		check := exec.Command("sha256sum", "--quiet", "-c", "SHA256SUMS")
		check.Dir = r.out
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("sha256sum: %v: %s", err, out)
		}
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("the same files make another tarball")
	}
	z, err := gzip.NewReader(bytes.NewReader(made[0]))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		got[h.FileInfo().Mode().String()+" "+h.Name] = string(data)
	}
	want := map[string]string{
		"-rwxr-xr-x rocescope-1.0.0/bin/rocescope": "program", "-rw-r--r-- rocescope-1.0.0/LICENSE": "text",
		"-rw-r--r-- rocescope-1.0.0/share/man/man1/rocescope.1":                     ".TH",
		"-rw-r--r-- rocescope-1.0.0/share/bash-completion/completions/rocescope":    "complete",
		"-rw-r--r-- rocescope-1.0.0/share/zsh/site-functions/_rocescope":            "#compdef",
		"-rw-r--r-- rocescope-1.0.0/share/fish/vendor_completions.d/rocescope.fish": "complete -c",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestDebianPackage has dpkg-deb read what it wrote.
func TestDebianPackage(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not here: this is no Debian")
	}
	r := testRelease(t, "v1.0.0")
	files := []file{{executable, "rocescope", []byte("program")}, {document, "LICENSE", []byte("terms")}, {document, "CHANGELOG.md", []byte("news")}, {manual, "rocescope.1", []byte(".TH")}}
	if err := r.debian("amd64", files); err != nil {
		t.Fatal(err)
	}
	deb := filepath.Join(r.out, "rocescope_1.0.0_amd64.deb")
	out, err := exec.Command("dpkg-deb", "--field", deb, "Package", "Version", "Architecture").CombinedOutput()
	if want := "Package: rocescope\nVersion: 1.0.0\nArchitecture: amd64\n"; err != nil || string(out) != want {
		t.Errorf("%v: %s", err, out)
	}
	to := t.TempDir()
	if out, err := exec.Command("dpkg-deb", "-x", deb, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, mode := range map[string]string{
		"usr/bin/rocescope": "-rwxr-xr-x", "usr/share/doc/rocescope/copyright": "-rw-r--r--",
		"usr/share/doc/rocescope/changelog.gz": "-rw-r--r--", "usr/share/man/man1/rocescope.1.gz": "-rw-r--r--",
	} {
		if st, err := os.Stat(filepath.Join(to, name)); err != nil || st.Mode().String() != mode {
			t.Errorf("%s: %v %v", name, st, err)
		}
	}
}

// TestBillAndLicences looks at a binary that is here, the test's own, and at a module that it links.
func TestBillAndLicences(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mods, err := linked(self)
	if err != nil {
		t.Fatal(err)
	}
	if len(mods) == 0 || mods[0].version != runtime.Version() {
		t.Errorf("%v, without the Go that this is built by", mods)
	}
	// A test's binary does not say what else is in it.
	mods = append(mods, module{"github.com/google/go-cmp", "v0.7.0", "h1:wk8382ETsv4JYUZwIsn6YpYiWiBsYLSJiTsyBybVuN8="})
	text, err := licences(mods)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "Redistribution and use in source and binary forms"); n < 2 {
		t.Errorf("%d licences of the BSD kind, Go's and go-cmp's are", n)
	}
	out, err := testRelease(t, "v1.0.0").bill("rocescope-1.0.0-linux-amd64", mods)
	if err != nil {
		t.Fatal(err)
	}
	var doc spdxDocument
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Packages) != len(mods)+1 || len(doc.Relationships) != len(mods)+1 {
		t.Errorf("%d packages and %d relationships for %d modules", len(doc.Packages), len(doc.Relationships), len(mods))
	}
	ids := map[string]bool{"SPDXRef-DOCUMENT": true}
	for _, p := range doc.Packages {
		if ids[p.ID] || notInID.MatchString(p.ID) {
			t.Errorf("the name %s is taken, or none", p.ID)
		}
		ids[p.ID] = true
		for _, c := range p.Checksums {
			if len(c.Value) != 64 {
				t.Errorf("%s: %s is no SHA-256", p.Name, c.Value)
			}
		}
	}
	for _, r := range doc.Relationships {
		if !ids[r.Element] || !ids[r.Related] {
			t.Errorf("%v points to nothing", r)
		}
	}
}
