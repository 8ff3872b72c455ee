package tui

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/tui/cells"
)

// doses is a live source that hands out as many frames as it is told to, all alike.
type doses struct {
	frame captures.Frame
	next  chan int
	left  int
}

func (d *doses) ReadBatch(dst []captures.Frame) (int, error) {
	if d.left == 0 {
		n, more := <-d.next
		if !more {
			return 0, io.EOF
		}
		d.left = n
	}
	n := min(len(dst), d.left)
	for i := range n {
		dst[i] = d.frame
		d.frame.Time++
	}
	d.left -= n
	return n, nil
}

func (d *doses) Interfaces() []captures.Interface { return []captures.Interface{{Name: "doses"}} }
func (d *doses) Close() error                     { return nil }

// TestAFrozenListStaysWhenItsBytesAreGone: packets go on coming and push those on the frozen screen out of the ring.
func TestAFrozenListStaysWhenItsBytesAreGone(t *testing.T) {
	d := &doses{next: make(chan int)}
	d.frame = captures.Frame{Data: make([]byte, 1000), WireLen: 1000, Link: 1, HasTime: true, Time: 1}
	ses, err := NewSession(context.Background(), Input{
		Title: "doses", Live: true, Ring: 1 << 20,
		Open: func(context.Context) (captures.Source, error) { return d, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ses.Close() })
	d.next <- 300
	d.next <- 1 // the 300 are indexed when more is asked for
	u := seat(t, Options{Depth: cells.Color256}, ses, 120, 40)
	before := u.press("4", "space").screenRows()
	if len(before) == 0 {
		t.Fatal("there are no packets on the screen")
	}
	d.next <- 5000
	close(d.next)
	<-ses.index.Done()
	u.settle()
	if first := ses.index.First(); first < 1000 {
		t.Fatalf("the ring has lost nothing: its first packet is %d", first)
	}
	if after := u.screenRows(); !slices.Equal(before, after) {
		t.Errorf("frozen were packets %d, on the screen are %d", before, after)
	}
	u.press("space").sees("5,301 packets")
}

// screenRows are the packets of the list in view whose bytes are there.
func (u *user) screenRows() (numbers []uint64) {
	u.do(func() {
		g := &u.s.top().(*packetsView).list
		for i := g.top; i < min(g.n, g.top+g.height); i++ {
			if r := g.row(i); r != nil {
				numbers = append(numbers, r.Number)
			}
		}
	})
	return numbers
}
