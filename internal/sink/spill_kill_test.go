package sink

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rocescope/rocescope/flows"
)

const spillEnv = "ROCESCOPE_TEST_SPILL"

// TestMain makes this program the process that TestSpillKilled kills, where it is told so.
func TestMain(m *testing.M) {
	if path := os.Getenv(spillEnv); path != "" {
		fmt.Fprintln(os.Stderr, spillForEver(path))
		os.Exit(1)
	}
	m.Run()
}

// spillForEver puts blocks without end, says of each when it is put, and takes the oldest out when there are several.
func spillForEver(path string) error {
	s, err := OpenSpill(path, 1<<30)
	if err != nil {
		return err
	}
	run := Run{Probe: "p", ID: 7}
	for i := 0; ; i++ {
		b := NewBlock(messages().Table)
		for range i%7 + 1 {
			messages().add(b, &messageRow{where: where{run: &run, conn: 1}, Message: &flows.Message{Index: uint32(i), Bytes: 10}})
		}
		if err := s.Put(&Parcel{Block: b, ID: uint64(i)}); err != nil {
			return err
		}
		fmt.Println("put", i)
		if i%3 == 2 {
			if err := s.Drop(); err != nil {
				return err
			}
			fmt.Println("dropped", i/3)
		}
	}
}

// TestSpillKilled kills a process that spills, at some moment: whatever it had put, and not yet taken out, is there, each once and
// in order.
func TestSpillKilled(t *testing.T) {
	rounds := 3
	if n, err := strconv.Atoi(os.Getenv("ROCESCOPE_FAULT_ROUNDS")); err == nil {
		rounds = n
	}
	for round := range rounds {
		path := filepath.Join(t.TempDir(), "a.spill")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), spillEnv+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		put, dropped := -1, -1
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "put %d", &n); err == nil {
				if put = n; put == 2+round*5%40 {
					time.Sleep(time.Duration(round*37%11) * 100 * time.Microsecond) // some moment
					cmd.Process.Kill()
				}
			} else if _, err := fmt.Sscanf(lines.Text(), "dropped %d", &n); err == nil {
				dropped = n
			}
		}
		_ = cmd.Wait() // it was killed
		s, err := OpenSpill(path, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		blocks, _ := s.Waiting()
		first, last := -1, -1
		for range blocks {
			b, err := s.Oldest()
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if first < 0 {
				first = int(b.ID)
			} else if int(b.ID) != last+1 {
				t.Errorf("round %d: block %d is behind %d", round, b.ID, last)
			}
			if last = int(b.ID); b.Rows != last%7+1 {
				t.Errorf("round %d: block %d has %d rows", round, last, b.Rows)
			}
			if err := s.Drop(); err != nil {
				t.Fatal(err)
			}
		}
		// What was not said any more may have been done all the same: one block put, or one taken out.
		if last != put && last != put+1 || first != dropped+1 && first != dropped+2 {
			t.Errorf("round %d: blocks %d to %d are there; those up to %d were put, up to %d taken out", round, first, last, put, dropped)
		}
		s.Close()
	}
}
