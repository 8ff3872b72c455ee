package lab

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Image is a guest that is ready to boot.
type Image struct {
	Folder   string            `json:"-"`
	Kernel   string            `json:"kernel"`   // its release, such as 6.1.0-57-amd64
	Packages map[string]string `json:"packages"` // versions by name
}

func (i *Image) kernelFile() string { return filepath.Join(i.Folder, "vmlinuz") }
func (i *Image) initrdFile() string { return filepath.Join(i.Folder, "initrd") }

// Scratch is a folder for files that last as long as the namespace that Enter makes.
func (i *Image) Scratch() string { return filepath.Join(i.Folder, "scratch") }

// CacheFolder is where guests are kept: rocescope/lab in the user's cache folder.
func CacheFolder() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no place to keep the guest: %w; set XDG_CACHE_HOME", err)
	}
	return filepath.Join(base, "rocescope", "lab"), nil
}

// Build makes a guest from the packages that the archive has now, unless the cache has just that one already. It tells
// what it does as it goes.
func Build(kind Kind, tell func(format string, args ...any)) (*Image, error) {
	cache, err := CacheFolder()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(cache, "building-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	list, err := resolve(cache, filepath.Join(work, "none"))
	if err != nil {
		return nil, err
	}
	agent, err := buildAgent(work)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(cache, key(kind, list, agent))
	if image, err := open(folder); err == nil {
		return image, nil
	}
	began := time.Now()
	tell("fetching %d packages", len(list))
	if err := download(cache, list); err != nil {
		return nil, err
	}
	tell("putting the guest together")
	root := filepath.Join(work, "root")
	if err := unpack(cache, list, root); err != nil {
		return nil, err
	}
	made := filepath.Join(work, "image")
	if err := writeImage(kind, made, root, agent, list); err != nil {
		return nil, err
	}
	if err := os.Rename(made, folder); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	tell("built in %.0f s: %s", time.Since(began).Seconds(), folder)
	return open(folder)
}

// key names a guest by all that it is made from.
func key(kind Kind, list []Package, agent []byte) string {
	h := sha256.New()
	for _, p := range list {
		fmt.Fprintln(h, p.File)
	}
	fmt.Fprintln(h, recipe, kind, applets, trees, left)
	h.Write(agent)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// buildAgent compiles the guest's first process, to the same bytes wherever the sources are.
func buildAgent(work string) ([]byte, error) {
	file := filepath.Join(work, "agent")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", file,
		"github.com/rocescope/rocescope/lab/agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the guest's agent does not build (this needs the sources: run it in the checkout): %w: %s", err, bytes.TrimSpace(out))
	}
	return os.ReadFile(file)
}

// writeImage makes a folder with the kernel, the file system and image.json, which comes last.
func writeImage(kind Kind, folder, root string, agent []byte, list []Package) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	kernels, err := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return fmt.Errorf("the packages have %d kernels, where one was looked for", len(kernels))
	}
	image := Image{Folder: folder, Kernel: strings.TrimPrefix(filepath.Base(kernels[0]), "vmlinuz-"), Packages: map[string]string{}}
	for _, p := range list {
		image.Packages[p.Name] = p.Version
	}
	if err := os.Rename(kernels[0], image.kernelFile()); err != nil {
		return err
	}
	a, err := assemble(kind, root, agent)
	if err != nil {
		return err
	}
	// Not compressed: the guest has no fast processor, the host has a disk.
	if err := writeFile(image.initrdFile(), a.write); err != nil {
		return err
	}
	return writeFile(filepath.Join(folder, "image.json"), func(w io.Writer) error {
		out := json.NewEncoder(w)
		out.SetIndent("", "\t")
		return out.Encode(image)
	})
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(write(w), w.Flush(), f.Close())
}

func open(folder string) (*Image, error) {
	text, err := os.ReadFile(filepath.Join(folder, "image.json"))
	if err != nil {
		return nil, err
	}
	image := &Image{Folder: folder}
	if err := json.Unmarshal(text, image); err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return image, nil
}
