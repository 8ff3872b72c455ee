// Package fault does to frames on purpose what networks and devices do by accident: rules choose packets, and actions lose, copy,
// delay, reorder, damage, alter, answer or replay them.
//
// It owns the rules, the actions and the list of known faults. What a device should make of a fault is only told here, in the
// list. Checking that it does belongs to whoever runs the exchange, how frames get out and in to inject/port.
//
// # Rules
//
// A rule has an action, which packets it may strike (a display filter over the packet and its flows.Mark), and which of those it
// does strike. In words, as on a command line:
//
//	drop nth=3 when bth.opcode == RC_RDMA_WRITE_MIDDLE
//	set bth.psn=+1 every=10 then pad n=4 when bth.destqp == 0x11
//	PSN-04 when bth.destqp == 0x11
//
// In YAML (ReadFile) the same, with a key for each part. Rules are tried in their order; the first that strikes a packet decides on
// it, and those behind it do not see it. Each way, out and in, counts for itself. What is random comes from the seed, the rule's
// number and the way alone, so that the same frames meet the same fate.
//
// # A lane
//
// A Lane is the rules at work on the frames of one way. Look tells of each frame whether it goes on as it is, and Lane.Before and
// Lane.Behind what goes out around it. A frame that no rule strikes costs a look at its opcode and queue pair, and no memory.
// A Port has a lane for each way, around another port; inject/wire has one for each direction of a bridge.
package fault
