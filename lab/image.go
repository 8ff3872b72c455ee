package lab

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// programs of the guest. Debian's perftest puts them where all users find them.
var programs = []string{
	"ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_send_bw", "ib_send_lat", "ib_atomic_bw", "ib_atomic_lat",
	"ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", "ibv_devinfo",
	"rping", "ucmatose", "udaddy", "rdma_client", "rdma_server",
	"ip", "tc", "rdma", "ss", "ethtool", "busybox", "python3",
}

// applets of busybox, which has many more that shadow programs of the same name when its shell calls them.
var applets = []string{"sh", "cat", "grep", "sleep", "kill"}

// loadAtRun is what programs load by name while they run, so that no list of needed libraries has it.
var loadAtRun = []string{
	"/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so",
	"/etc/libibverbs.d/rxe.driver",
	"/lib/x86_64-linux-gnu/libgcc_s.so.1", // for threads that end
}

// trees are folders that go in with all that is in them, by patterns.
var trees = []string{"usr/lib/python3.*", "usr/lib/python3/dist-packages/pyverbs"}

// left are parts of trees that go without saying: tests, and what no program of the guest loads.
var left = []string{
	"test", "unittest", "idlelib", "lib2to3", "ensurepip", "distutils", "pydoc_data", "asyncio", "email", "xml", "http", "sqlite3",
	"curses", "tkinter", "dbm", "wsgiref", "xmlrpc", "multiprocessing", "concurrent", "urllib", "venv", "zoneinfo", "tomllib",
}

// kernelModules of the guest, in the order that they are loaded in; those that they need come by themselves.
var kernelModules = []string{
	"virtio_pci", "virtio_console", "virtio_net", "af_packet",
	"crc32_generic", "ib_uverbs", "rdma_ucm", "rdma_rxe",
	"sch_prio", "sch_netem", "cls_u32", "sch_ingress", "act_mirred", "ifb",
}

// Kind is a sort of guest: what it has in it besides the agent.
type Kind struct {
	programs, files, modules []string // files: what programs load or read by name while they run
}

// Plain is the guest that most is run in.
var Plain = Kind{programs, loadAtRun, kernelModules}

// Storage has besides, for lab/upper, both ends of the protocols that carry storage and sockets over RDMA.
var Storage = Kind{
	programs: append(slices.Clone(programs),
		"rpcbind", "exportfs", "rpc.mountd", "mount.nfs", "iscsid", "iscsiadm"),
	files: append(slices.Clone(loadAtRun), "/etc/netconfig", "/etc/iscsi/iscsid.conf"),
	modules: append(slices.Clone(kernelModules),
		"brd", "nvmet_rdma", "nvme_rdma", "sd_mod", "crc32c_generic", "ib_isert", "ib_iser", "nfsd", "nfsv3", "nfsv4", "rpcrdma", "smc"),
}

// builtIn are modules that some of Debian's kernels have inside.
var builtIn = map[string]bool{"af_packet": true, "crc32_generic": true, "virtio_pci": true}

// recipe changes when assemble puts other things in than these lists say.
const recipe = 2

// assemble makes a guest's file system from the unpacked packages and the agent.
func assemble(kind Kind, root string, agent []byte) (*archive, error) {
	a := newArchive()
	a.put("init", modeProg, agent)
	for _, p := range kind.programs {
		if err := addFound(a, root, p, "bin", "sbin", "usr/bin", "usr/sbin"); err != nil {
			return nil, err
		}
	}
	for _, applet := range applets {
		a.put("bin/"+applet, modeLink, []byte("busybox"))
	}
	for _, file := range kind.files {
		if err := addFile(a, root, file); err != nil {
			return nil, err
		}
	}
	for _, pattern := range trees {
		if err := addTrees(a, root, pattern); err != nil {
			return nil, err
		}
	}
	m, err := findModules(root)
	if err != nil {
		return nil, err
	}
	files, err := m.order(slices.DeleteFunc(slices.Clone(kind.modules), func(name string) bool { return m.files[name] == "" && builtIn[name] }))
	if err != nil {
		return nil, err
	}
	var order strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		a.put("modules/"+filepath.Base(file), modeFile, data)
		fmt.Fprintln(&order, filepath.Base(file))
	}
	a.put("modules/order", modeFile, []byte(order.String()))
	return a, nil
}

// addTrees adds the files of the folders that a pattern stands for, but for what is left.
func addTrees(a *archive, root, pattern string) error {
	folders, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(folders) == 0 {
		return fmt.Errorf("none of the packages has %s", pattern)
	}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case slices.Contains(left, d.Name()):
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			case d.IsDir() || d.Type()&fs.ModeSymlink != 0:
				return nil
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			return addFile(a, root, name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addFound adds the file from the first of the folders that has it.
func addFound(a *archive, root, name string, folders ...string) error {
	for _, f := range folders {
		if _, err := os.Lstat(filepath.Join(root, f, name)); err == nil {
			return addFile(a, root, path.Join(f, name))
		}
	}
	return fmt.Errorf("none of the packages has %s", name)
}

// addFile adds a file by its path in the guest, where links lead, and the libraries that it needs.
func addFile(a *archive, root, name string) error {
	if a.has(name) {
		return nil
	}
	file := filepath.Join(root, name)
	info, err := os.Lstat(file)
	if err != nil {
		return fmt.Errorf("the guest's %s: %w", name, err)
	}
	if info.Mode()&os.ModeSymlink != 0 {
		to, err := os.Readlink(file)
		if err != nil {
			return err
		}
		a.put(name, modeLink, []byte(to))
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(name), to)
		}
		return addFile(a, root, to)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	a.put(name, executable(info.Mode()), data)
	return addLibraries(a, root, file)
}

var libraryFolders = []string{"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64"}

// addLibraries adds the loader and the libraries that a program or library names.
func addLibraries(a *archive, root, file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return nil //nolint:nilerr // a script or a text, which needs none
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		loader := make([]byte, p.Filesz-1)
		if _, err := p.ReadAt(loader, 0); err != nil {
			return err
		}
		if err := addFile(a, root, string(loader)); err != nil {
			return err
		}
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil //nolint:nilerr // a program that is linked statically
	}
	for _, lib := range needed {
		if err := addFound(a, root, lib, libraryFolders...); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return nil
}
