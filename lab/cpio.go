package lab

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// archive is an initial ram file system in the making: the kernel's "newc" variant of cpio. Its content depends on
// what is put in only, not on the time or the machine.
type archive struct {
	entries map[string]entry
}

type entry struct {
	mode uint32 // file type and permissions, as in stat
	data []byte // a file's content, or where a link leads
}

const (
	modeDir  = 0o040755
	modeFile = 0o100644
	modeProg = 0o100755
	modeLink = 0o120777
)

func newArchive() *archive { return &archive{map[string]entry{}} }

// put adds a file, whose folders come by themselves.
func (a *archive) put(name string, mode uint32, data []byte) {
	name = strings.TrimPrefix(path.Clean(name), "/")
	a.entries[name] = entry{mode, data}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, there := a.entries[dir]; !there {
			a.entries[dir] = entry{mode: modeDir}
		}
	}
}

func (a *archive) has(name string) bool {
	_, there := a.entries[strings.TrimPrefix(path.Clean(name), "/")]
	return there
}

// writeTo writes the archive, folders before what is in them.
func (a *archive) write(w io.Writer) error {
	names := make([]string, 0, len(a.entries))
	for name := range a.entries {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if err := writeEntry(w, i+1, name, a.entries[name]); err != nil {
			return err
		}
	}
	return writeEntry(w, 0, "TRAILER!!!", entry{})
}

// writeEntry writes one member: a head of hexadecimal numbers, the name, the data, the latter two padded to four bytes.
func writeEntry(w io.Writer, inode int, name string, e entry) error {
	const links, owner, group, mtime, device, check = 1, 0, 0, 0, 0, 0
	_, err := fmt.Fprintf(w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		inode, e.mode, owner, group, links, mtime, len(e.data), device, device, device, device, len(name)+1, check)
	if err != nil {
		return err
	}
	head := 110 + len(name) + 1
	if _, err := io.WriteString(w, name+"\x00"+strings.Repeat("\x00", -head&3)); err != nil {
		return err
	}
	if _, err := w.Write(e.data); err != nil {
		return err
	}
	_, err = io.WriteString(w, strings.Repeat("\x00", -len(e.data)&3))
	return err
}

// executable says how a file's permissions are kept: it can be run or not.
func executable(m fs.FileMode) uint32 {
	if m&0o111 != 0 {
		return modeProg
	}
	return modeFile
}
