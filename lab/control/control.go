// Package control is the language between the laboratory and the agent that runs in its guest: JSON, one object a line,
// over a serial port. It does not know what is said in it, nor by which wires it goes.
package control

// Port is the name of the serial port in the guest.
const Port = "rocescope.lab"

// Request asks the agent for one thing. Many may be under way; answers carry their request's ID.
type Request struct {
	ID   uint64   `json:"id"`
	Run  []string `json:"run,omitempty"`  // a program and its arguments
	Kill uint64   `json:"kill,omitempty"` // the ID of the request whose program shall end, with its children
}

// Answer is what the agent says: about a program that it runs, first what the program prints, standard output and error
// alike and in their order, then how it ended.
type Answer struct {
	ID   uint64 `json:"id"`
	Out  []byte `json:"out,omitempty"`
	Done bool   `json:"done,omitempty"`
	Exit int    `json:"exit,omitempty"` // its exit code, or 128 plus the signal that ended it
	Err  string `json:"err,omitempty"`  // why it could not be run
	Up   string `json:"up,omitempty"`   // the agent is there; this kernel runs. ID is 0
}
