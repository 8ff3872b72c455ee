package port

import (
	"bytes"
	"io"
	"testing"
	"time"
)

// FuzzPipe lets a simulation say whatever on its standard output: the port gives frames that it said, or an error.
func FuzzPipe(f *testing.F) {
	message := func(kind byte, at uint64, body []byte) []byte {
		var b bytes.Buffer
		var scratch [pipeHeader]byte
		if err := writeMessage(&b, &scratch, kind, at, body); err != nil {
			f.Fatal(err)
		}
		return b.Bytes()
	}
	hello := message(PipeHello, 0, helloBody(2048))
	f.Add(hello)
	for kind := byte(PipeHello); kind <= PipeEnd; kind++ {
		f.Add(append(bytes.Clone(hello), message(kind, 1000, []byte("abcdefgh"))...))
		f.Add(append(bytes.Clone(hello), message(kind, 1<<63, nil)...))
	}
	f.Add(message(PipeHello, 0, helloBody(0)))
	f.Add(message(PipeHello, 0, helloBody(1<<31)))
	f.Add([]byte("hello, world: this is no pipe"))
	f.Fuzz(func(t *testing.T, said []byte) {
		p := NewPipe(bytes.NewReader(said), io.Discard, Options{Patience: time.Second})
		defer p.Close()
		var in [16]In
		for range 20 {
			if err := p.Wait(time.Millisecond); err != nil {
				return
			}
			n, err := p.Receive(in[:])
			for i := range in[:n] {
				if !bytes.Contains(said, in[i].Data) {
					t.Fatalf("frame %q was never said", in[i].Data)
				}
			}
			if err != nil {
				return
			}
		}
	})
}
