// Package diff compares two captures of the same traffic: from two places, or
// of two runs.
//
// Two places. Each packet of one capture is looked for in the other by what it
// is (addresses, QP, opcode, PSN, its headers) and, where the same bytes passed
// more than once, by which round it was, which its time and its order tell. A
// packet that was damaged on the way has lost what it is known by; it is found
// by its remains. What is left is lost, copied, overtaken or changed, and each
// such packet is named. The two clocks are compared too: a packet cannot arrive
// before it was sent, in neither direction, which leaves a range of offsets and
// drifts; the estimate is its middle and the stated error reaches to its ends.
//
// Two runs. Messages and findings are compared, by QP and PSN where these are
// the same in both, else in the order in which connections began.
//
// Files are read several times and never held: a packet is kept until its twin
// is found or the window is behind it. See [Options] for what bounds memory.
//
// The package knows no flags and prints nothing but its own result.
package diff
