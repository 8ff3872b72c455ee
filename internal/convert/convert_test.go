package convert

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// read collects a stream's frames as text.
func read(of func(s *strings.Builder) error) (string, error) {
	var s strings.Builder
	err := of(&s)
	return s.String(), err
}

func csvFrames(o Stream, table string) (string, error) {
	return read(func(s *strings.Builder) error {
		return CSV(strings.NewReader(table), o, func(f *Frame) error {
			fmt.Fprintf(s, "%d ns, cycles %d-%d: %x\n", f.Time, f.First, f.Last, f.Data)
			return nil
		})
	})
}

func vcdFrames(o Stream, dump string) (string, error) {
	return read(func(s *strings.Builder) error {
		return VCD(strings.NewReader(dump), o, func(f *Frame) error {
			fmt.Fprintf(s, "%d ns, cycles %d-%d: %x\n", f.Time, f.First, f.Last, f.Data)
			return nil
		})
	})
}

func TestCSV(t *testing.T) {
	for name, c := range map[string]struct {
		o           Stream
		table, want string
	}{
		"a row is a cycle": {
			Stream{Period: 2500000},
			"tdata[15:0],tkeep[1:0],tlast,tvalid,tready\n0201,3,0,1,1\n0403,3,0,1,0\n0403,3,0,0,1\n0403,3,0,1,1\n0005,1,1,1,1\n",
			"0 ns, cycles 0-4: 0102030405\n",
		},
		"big byte order keeps from the top": {
			Stream{Period: 1e6, MSBFirst: true}, "tdata[15:0],tkeep[1:0],tlast\n0102,3,0\n0300,2,1\n", "0 ns, cycles 0-1: 010203\n",
		},
		"narrow numbers are filled up": {
			Stream{Period: 1e6}, "tdata[31:0],tlast\n1,1\n", "0 ns, cycles 0-0: 01000000\n",
		},
		"a hole in tkeep": {
			Stream{Period: 1e6}, "tdata[31:0],tkeep[3:0],tlast\n04030201,5,1\n", "0 ns, cycles 0-0: 0103\n",
		},
		"undefined where nothing is kept": {
			Stream{Period: 1e6}, "tdata[15:0],tkeep[1:0],tlast,tvalid\nxxxx,x,x,x\nxx01,1,1,1\n", "1 ns, cycles 1-1: 01\n",
		},
		"radices": {
			Stream{Period: 1e6}, "n,tdata[15:0],tkeep[1:0],tlast\nRadix - UNSIGNED,UNSIGNED,BINARY,BINARY\n0,513,11,0\n1,3,01,1\n", "0 ns, cycles 0-1: 010203\n",
		},
		"a column of times; semicolons, quotes, comments": {
			Stream{}, "; made by hand\n\"Time [ns]\"\t\"tdata[7:0]\"\ttlast\n# more\n\"16.75\"\t0xAA\t1\n1e3\t0x0B\t1\n", "16 ns, cycles 0-0: aa\n1000 ns, cycles 1-1: 0b\n",
		},
		"a clock: edges take what was before them": {
			Stream{}, "time(us),clk,tdata[7:0],tlast\n0,0,aa,0\n1,1,bb,1\n2,0,bb,1\n3,1,cc,1\n", "1000 ns, cycles 0-1: aabb\n",
		},
		"one of two buses": {
			Stream{Period: 1e6, Bus: "tx/"}, "rx/tdata[7:0],rx/tlast,tx/tdata[7:0],tx/tlast\naa,1,bb,1\n", "0 ns, cycles 0-0: bb\n",
		},
		"names by hand": {
			Stream{Period: 1e6, Names: map[string]string{"tdata": "d", "tlast": "top.eop"}}, "d[7:0],top.eop\n7,1\n", "0 ns, cycles 0-0: 07\n",
		},
	} {
		if got, err := csvFrames(c.o, c.table); got != c.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, c.want)
		}
	}
}

const dump = `$timescale 100 ps $end
$scope module top $end $var wire 1 ! aclk $end
$var wire 16 d tdata [15:0] $end $var wire 2 k tkeep $end $var wire 1 l tlast $end $var wire 1 v tvalid $end
$upscope $end $enddefinitions $end
#0 0! bx d bx k xl 0v
#10 1! b1000000001 d b11 k 0l 1v
#20 0!
#30 1! b11 d b01 k 1l
#40 0!
#50 1! 0v
`

func TestVCD(t *testing.T) {
	got, err := vcdFrames(Stream{}, dump)
	if want := "3 ns, cycles 1-2: 010203\n"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestErrors(t *testing.T) {
	const h = "$timescale 1ns $end $var wire 1 ! clk $end $var wire 8 d tdata $end $var wire 1 l tlast $end $enddefinitions $end\n"
	for want, input := range map[string]string{
		"line 2: it has 1 columns, so that tlast is missing, which is column 2":        "tdata,tlast\nab\n",
		"line 1: no signal is named tlast; name it with --signal tlast=NAME":           "tdata,tfirst\n",
		"line 1: several signals could be tdata: a/tdata and b/tdata":                  "a/tdata,b/tdata,tlast\n",
		"line 2: byte 0 of tdata is undefined in a beat that is taken":                 "tdata,tlast\nxx,1\n",
		"line 3: the frame that begins in line 2 has more than 1 bytes":                "tdata,tlast\nab,0\ncd,0\n",
		"line 2: a quotation mark is not closed":                                       "tdata,tlast\n\"ab,0\n",
		"the table is empty":                                                           "\n",
		"line 1: it is longer than 1048576 bytes":                                      strings.Repeat("a", 2<<20),
		"line 2: \"?!\" is no value change":                                            h + "?!\n",
		"line 3: time runs backwards, from 20 to 10":                                   h + "#20\n#10\n",
		"line 2: a value of 9 bits for tdata, which has 8":                             h + "b101010101 d\n",
		"line 1: the dump ends within its declarations":                                "$timescale 1ns $end\n",
		"line 1: \"3ns\" is no timescale":                                              "$timescale 3 ns $end\n",
		"line 1: \"hello\" is no declaration":                                          "hello $end\n",
		"line 2: the input ends within the frame":                                      h + "#0 0! b1 d 0l #1 1!\n",
		"line 1: no signal is the clock; name it":                                      strings.Replace(h, "clk", "ck", 1),
		"line 2: byte 0 of tdata is undefined in a beat that is taken; if it is not p": h + "#0 0! bx d 1l #1 1!\n",
	} {
		var err error
		if strings.HasPrefix(input, "$") || strings.HasPrefix(input, "hello") {
			_, err = vcdFrames(Stream{}, input)
		} else {
			_, err = csvFrames(Stream{Period: 1e6, MaxFrame: 1}, input)
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	stop := errors.New("disk full")
	if err := CSV(strings.NewReader("tdata,tlast\nab,1\n"), Stream{Period: 1}, func(*Frame) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want what emit says", err)
	}
}

func TestDecimalTime(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "1.5": 1500000000, "1e-9": 1, "-0.000000002": -2, "1700000000.123456789": 1700000000123456789,
		"0.00000000099": 0, "1.25E-6": 1250, "+3": 3000000000,
	} {
		if got, ok := decimalTime(s, 9); got != want || !ok {
			t.Errorf("%s: %d, %v, want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "x", "1.2.3", "1e999", "99999999999999999999", "1e"} {
		if got, ok := decimalTime(s, 9); ok {
			t.Errorf("%q is taken for %d", s, got)
		}
	}
}

// Whatever the input is: no panic, frames within bounds, and errors that name a line.
func FuzzStreams(f *testing.F) {
	f.Add([]byte(dump))
	f.Add([]byte("Time [ns],clk,tdata[15:0],tkeep[1:0],tlast,tvalid,tready\n0,0,1234,3,0,1,1\n1,1,1234,3,1,1,1\n"))
	f.Add([]byte("tdata,tlast\nRadix - HEX,BINARY\n1010,1\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		for _, period := range []uint64{0, 3200000} {
			o := Stream{Period: period, MaxFrame: 256}
			for _, of := range []func() error{
				func() error { return CSV(bytes.NewReader(input), o, bounded(t)) },
				func() error { return VCD(bytes.NewReader(input), o, bounded(t)) },
			} {
				if err := of(); err != nil && !strings.Contains(err.Error(), "line ") {
					t.Fatalf("an error without a line: %v", err)
				}
			}
		}
	})
}

func bounded(t *testing.T) func(*Frame) error {
	return func(f *Frame) error {
		if len(f.Data) == 0 || len(f.Data) > 256 || f.Last < f.First {
			t.Fatalf("a frame of %d bytes in cycles %d to %d", len(f.Data), f.First, f.Last)
		}
		return nil
	}
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]string{"a.pcap": "pcap ", "b.PCAPNG.zst": "pcapng .zst", "c.pcapng.gz": "pcapng .gz"} {
		if f, c, err := FormatOf(name); string(f)+" "+c != want || err != nil {
			t.Errorf("%s: %s %s, %v", name, f, c, err)
		}
	}
	for _, name := range []string{"a", "a.txt", "a.gz"} {
		if _, _, err := FormatOf(name); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
