package lab

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// debPackages are those that the programs, driver and kernel of every kind of guest come from; apt adds what they depend on.
var debPackages = []string{
	"linux-image-amd64", // the flavour for clouds has no soft-RoCE
	"rdma-core", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "perftest",
	"iproute2", "ethtool", "busybox-static", "python3-pyverbs",
	"nfs-kernel-server", "open-iscsi",
}

// Package is one of Debian's, by its file name in the archive, such as perftest_4.5+0.17-1_amd64.deb.
type Package struct {
	Name, Version, File string
}

// apt answers as on a machine that has nothing installed, so that the set depends on the archive only. Packages that were
// fetched stay in a folder of their own, where it finds them again.
func apt(folder, archives string, args ...string) ([]byte, error) {
	status := filepath.Join(folder, "nothing-installed")
	if err := os.MkdirAll(filepath.Join(archives, "partial"), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command("apt-get", append([]string{
		"-qq", "-y",
		"-o", "Dir::State::status=" + status,
		"-o", "Dir::Cache::archives=" + archives,
		"-o", "APT::Install-Recommends=false",
		"-o", "APT::Sandbox::User=root", // the folder may not be open to apt's own user
		"-o", "Acquire::Retries=3",
		"-o", "Debug::NoLocking=true",
	}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("the guest is built from Debian packages by apt-get, which is not here: build it on Debian or a container of it")
	}
	if err != nil {
		return nil, fmt.Errorf("apt-get: %w: %s", err, complaint(said.String()))
	}
	return out, nil
}

func archivesIn(folder string) string { return filepath.Join(folder, "debs") }

// complaint is the first error of apt-get's, which has one for each package.
func complaint(said string) string {
	for line := range strings.Lines(said) {
		if e, ok := strings.CutPrefix(line, "E: "); ok {
			return strings.TrimSpace(e)
		}
	}
	return strings.TrimSpace(said)
}

// resolve lists the packages that make the guest, as the archive has them now: those that would have to be fetched if there
// were none.
func resolve(folder, none string) ([]Package, error) {
	out, err := apt(folder, none, append([]string{"--print-uris", "install"}, debPackages...)...)
	if err != nil {
		return nil, fmt.Errorf("which packages make the guest cannot be told (apt-get update may help): %w", err)
	}
	return parsePackages(string(out))
}

// parsePackages reads what apt-get --print-uris says.
func parsePackages(said string) ([]Package, error) {
	var list []Package
	for line := range strings.Lines(said) {
		words := strings.Fields(line) // 'address' file size hash
		if len(words) < 3 {
			continue
		}
		parts := strings.Split(words[1], "_")
		if len(parts) != 3 {
			return nil, fmt.Errorf("apt-get names a package file %q, which is not NAME_VERSION_ARCHITECTURE.deb", words[1])
		}
		version, err := url.PathUnescape(parts[1])
		if err != nil {
			return nil, fmt.Errorf("apt-get names a package file %q: %w", words[1], err)
		}
		list = append(list, Package{parts[0], version, words[1]})
	}
	return list, nil
}

// download fetches the packages that the folder does not have, and throws away those of former times.
func download(folder string, list []Package) error {
	_, err := apt(folder, archivesIn(folder), append([]string{"--download-only", "install"}, debPackages...)...)
	if err != nil {
		return fmt.Errorf("the guest's packages cannot be fetched; is the package mirror reachable, and apt-get update done? %w", err)
	}
	there, err := filepath.Glob(filepath.Join(archivesIn(folder), "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range there {
		if !slices.ContainsFunc(list, func(p Package) bool { return p.File == filepath.Base(file) }) {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// unpack puts the contents of the packages below root, and runs nothing of them.
func unpack(folder string, list []Package, root string) error {
	for _, p := range list {
		if out, err := exec.Command("dpkg-deb", "-x", filepath.Join(archivesIn(folder), p.File), root).CombinedOutput(); err != nil {
			return fmt.Errorf("unpacking %s: %w: %s", p.File, err, bytes.TrimSpace(out))
		}
	}
	return nil
}
