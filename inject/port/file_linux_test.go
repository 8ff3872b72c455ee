package port

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/captures"
)

// TestFileOnAFullDisk: what fits is readable, to the last whole frame, and the rest is counted as lost.
func TestFileOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to mount a file system needs root")
	}
	path := t.TempDir() + "/out.pcapng"
	var f *File
	var back *os.File
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // which ends with this goroutine, and the mount with it
		done <- func() (err error) {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			if err := unix.Mount("none", path[:len(path)-len("/out.pcapng")], "tmpfs", 0, "size=600k"); err != nil {
				return err
			}
			if f, err = OpenFile(Options{File: path, Slots: 64}); err != nil {
				return err
			}
			back, err = os.Open(path)
			return err
		}()
	}()
	if err := <-done; err != nil {
		t.Skip(err)
	}
	defer back.Close()
	var err error
	for sent := 0; sent < 1<<16 && err == nil; sent += 32 {
		slots, out := make([]uint32, 32), make([]Out, 32)
		for i, s := range slots[:f.Take(slots)] {
			out[i] = Out{s, int32(mixed(f.Room(s), sent+i))}
		}
		err = f.Send(out)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	if err := f.Close(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("close: %v", err)
	}
	src, err := captures.Open(fmt.Sprintf("/proc/self/fd/%d", back.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	batch, want, n := make([]captures.Frame, 100), make([]byte, 9000), 0
	for {
		got, err := src.ReadBatch(batch)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, fr := range batch[:got] {
			if length := mixed(want, n); string(fr.Data) != string(want[:length]) {
				t.Fatalf("frame %d is another one", n)
			}
			n++
		}
	}
	if s := f.Stats(); n < 100 || s.Sent != uint64(n) || s.SendLost == 0 {
		t.Errorf("the file has %d frames; counted %+v", n, s)
	}
}
