//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"time"

	"github.com/rocescope/rocescope/internal/bench/page"
)

// rocePacket is a packet in a list, as any of the programs shows it.
var rocePacket = regexp.MustCompile(`RRoCE|RoCE v2|RC (RDMA|Send|Ack)`)

// firstScreens is how long it takes from the command to packets on the screen, and
// to others on the screen behind a jump to the end.
func firstScreens(b *bench) ([]page.Row, error) {
	began := time.Now()
	reading := time.Duration(0)
	if _, err := exec.LookPath("tshark"); err == nil {
		if err := exec.Command("tshark", "-n", "-r", b.file).Run(); err != nil {
			return nil, fmt.Errorf("tshark: %w", err)
		}
		reading = time.Since(began)
	}

	t, err := openTerminal(b.binary, "tui", b.file)
	if isMissing(err) {
		return []page.Row{{What: "first screen", Ours: err.Error(), Met: page.NotMeasured}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer t.close()
	first, err := t.await(t.began, regexp.MustCompile(`(?i)overview`), time.Minute)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	if err := t.keys("4"); err != nil {
		return nil, err
	}
	list, err := t.await(at, rocePacket, time.Minute)
	if err != nil {
		return nil, err
	}
	early := t.memory()
	all, err := t.indexed(b)
	if err != nil {
		return nil, err
	}
	at = time.Now()
	if err := t.keys("G"); err != nil {
		return nil, err
	}
	// Connections are opened by packets in front of those that were asked for.
	end, err := t.await(at, regexp.MustCompile(fmt.Sprintf(`\b%d\d{%d}\b`, b.packets/1_000_000, 6)), time.Minute)
	if err != nil {
		return nil, err
	}
	peak := t.memory()

	out := []page.Row{
		{What: "from the command to the first screen", Ours: millis(first), Goal: "< 1 s", Met: page.Judge(first < time.Second)},
		{What: "from the key to the packet list, while the file is read", Ours: millis(list), Goal: "< 100 ms", Met: page.Judge(list < 100*time.Millisecond)},
		{What: "from the command to all packets tracked and indexed", Ours: seconds(all)},
		{What: "to the last packet of all, by a key", Ours: millis(end), Goal: "< 100 ms", Met: page.Judge(end < 100*time.Millisecond)},
		{What: "memory when the list was up first", Ours: fmt.Sprintf("%.0f MB", float64(early)/1e6)},
		{What: "memory with all packets indexed, at its highest", Ours: fmt.Sprintf("%.0f MB", float64(peak)/1e6), Other: fmt.Sprintf("16 bytes a packet: %.0f MB", 16*float64(b.packets)/1e6)},
	}
	if reading > 0 {
		part := float64(first) / float64(reading)
		out[0].Other = "tshark reads the file in " + seconds(reading)
		out[0].Ratio = fmt.Sprintf("%.2f %%", part*100)
		out[0].Goal, out[0].Met = "< 1 s, < 5 %", page.Judge(first < time.Second && part < 0.05)
	}
	return append(out, theirs(b, first, peak)), nil
}

// indexed waits until the program says nothing of reading any more, and returns how
// long that took from its start.
func (t *terminal) indexed(b *bench) (time.Duration, error) {
	quiet := 0
	for time.Since(t.began) < 10*time.Minute {
		before := t.cpu()
		time.Sleep(500 * time.Millisecond)
		if t.cpu()-before > 150*time.Millisecond {
			quiet = 0
			continue
		}
		if quiet++; quiet == 3 {
			return time.Since(t.began) - 1500*time.Millisecond, nil
		}
	}
	return 0, fmt.Errorf("reading %s does not end", b.file)
}

// theirs is the same of termshark.
func theirs(b *bench, first time.Duration, peak int64) page.Row {
	row := page.Row{What: "termshark: from the command to packets on the screen; memory then, with its tsharks"}
	t, err := openTerminal("termshark", "-r", b.file)
	if err != nil {
		row.Other, row.Met = err.Error(), page.NotMeasured
		return row
	}
	defer t.close()
	took, err := t.await(t.began, rocePacket, 5*time.Minute)
	if err != nil {
		row.Other = "nothing within 5 minutes"
		return row
	}
	// Its list ends where its tshark is.
	time.Sleep(5 * time.Second)
	row.Ours = fmt.Sprintf("%s; %.0f MB", seconds(first), float64(peak)/1e6)
	row.Other = fmt.Sprintf("%s; %.0f MB 5 s later", seconds(took), float64(t.memory())/1e6)
	row.Ratio = fmt.Sprintf("%.1f×", float64(took)/float64(first))
	return row
}
