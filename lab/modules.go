package lab

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// modules finds kernel modules by their names, and what they need. Debian's packages have no list of that: it is made
// when they are installed.
type modules struct {
	files map[string]string // by name, with "_" for "-"
}

func findModules(root string) (*modules, error) {
	m := &modules{map[string]string{}}
	err := filepath.WalkDir(filepath.Join(root, "lib/modules"), func(file string, d fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(d.Name(), ".ko"); ok && err == nil {
			m.files[moduleName(name)] = file
		}
		return err
	})
	return m, err
}

func moduleName(s string) string { return strings.ReplaceAll(s, "-", "_") }

// order lists the files of the named modules and of all that they need, each after those that it needs.
func (m *modules) order(names []string) (files []string, err error) {
	seen := map[string]bool{}
	var visit func(name, wanter string) error
	visit = func(name, wanter string) error {
		name = moduleName(name)
		if seen[name] {
			return nil
		}
		seen[name] = true
		file, ok := m.files[name]
		if !ok {
			return fmt.Errorf("the kernel package has no module %s, which %s needs", name, wanter)
		}
		needs, err := moduleNeeds(file)
		if err != nil {
			return err
		}
		for _, n := range needs {
			if err := visit(n, name); err != nil {
				return err
			}
		}
		files = append(files, file)
		return nil
	}
	for _, n := range names {
		if err := visit(n, "the guest"); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// moduleNeeds reads a module's own word: "depends=a,b" in the section where modinfo looks.
func moduleNeeds(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("%s is no kernel module", file)
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for _, field := range bytes.Split(info, []byte{0}) {
		if list, ok := bytes.CutPrefix(field, []byte("depends=")); ok && len(list) > 0 {
			return strings.Split(string(list), ","), nil
		}
	}
	return nil, nil
}
