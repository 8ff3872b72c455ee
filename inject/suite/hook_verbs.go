package suite

import (
	_ "embed" // the hook's text
	"io"
	"time"
)

// VerbsHook is the program, in Python with pyverbs, that speaks for any RDMA device that Linux has a driver for. It runs on the
// machine with the device: --address ADDRESS, and --listen PORT where it is to be reached by TCP.
//
//go:embed examples/verbs_hook.py
var VerbsHook string

// NewHook is a device that a program speaks for whose input and output are there already, such as those of a connection. It has so
// much time for each answer.
func NewHook(conn io.ReadWriteCloser, patience time.Duration) *ExecHook {
	h := &ExecHook{in: conn, lines: make(chan []byte), patience: patience}
	go h.read(conn)
	return h
}
