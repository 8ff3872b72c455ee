package index

import (
	"bytes"
	"testing"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/internal/engine"
)

// FuzzDamagedFiles: of a damaged file the index has what reading on gives, and says
// the same error.
func FuzzDamagedFiles(f *testing.F) {
	for _, s := range samples.List()[:3] {
		data, err := samples.Open(s.Name)
		if err != nil {
			f.Fatal(err)
		}
		data = data[:min(len(data), 4<<10)]
		f.Add(data, uint16(700), byte(0x40))
		f.Add(sections(f, [][]byte{data[:wholeRecords(data)]}), uint16(90), byte(1))
		f.Add(zipped(f, data), uint16(50), byte(9))
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint16, flip byte) {
		data = bytes.Clone(data)
		if int(at) < len(data) {
			data[at] ^= flip
		}
		open := fileOpener(write(t, "damaged", data))
		want, wantErr := sequential(t, open, engine.Options{})
		o := Options{Open: open, Again: true, SpoolDir: t.TempDir()}
		o.Engine.CheckICRC = true
		x, err := Open(t.Context(), o)
		if err != nil {
			if wantErr == nil || len(want) > 0 {
				t.Fatalf("it cannot be opened: %v", err)
			}
			return
		}
		defer x.Close()
		_, err = x.Result()
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("ends with %v, should be %v", err, wantErr)
		}
		if x.Last() != uint64(len(want)) {
			t.Fatalf("%d packets, should be %d", x.Last(), len(want))
		}
		r := x.NewReader()
		var row Row
		for i := range want {
			if err := r.At(uint64(i)+1, &row); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(row.Data, want[i].Data) || row.Mark != want[i].Mark {
				t.Fatalf("packet %d is another", i+1)
			}
		}
		v, err := x.Filter(t.Context(), compile(t, "eth or not eth"))
		if err != nil {
			t.Fatal(err)
		}
		<-v.Done()
		if v.Len() != len(want) {
			t.Fatalf("%d packets pass a filter that all pass, should be %d", v.Len(), len(want))
		}
	})
}

// wholeRecords is how much of a cut pcap file is whole.
func wholeRecords(data []byte) int {
	at := 24
	for at+16 <= len(data) {
		n := 16 + int(data[at+8]) + int(data[at+9])<<8
		if at+n > len(data) {
			break
		}
		at += n
	}
	return at
}
