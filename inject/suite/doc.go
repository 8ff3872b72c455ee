// Package suite breaks things on purpose and judges the answer: cases of what is sent, or of what a device is told to do, and of what
// has to come of it, run against a device under test, as responder and as requester.
//
// It owns the cases (Scenario, in YAML; the built-in ones are in conformance/), the targets that they run against, the hook by which a
// device is told what to do (Device), the runner with its probes for life, and the verdicts (Result). The faults themselves, what they
// require and whose word that is, belong to inject/fault, connections to inject/peer, and what is wrong in an exchange is flows' affair.
//
// # A case
//
// A case has a connection of its own to the device: the queue pair that it is about, and a bystander. Its steps send crafted packets
// (send), have the device request (device), or post to our own RNIC (post); each says what has to come of it, in the words of the
// fault catalogue: ACK, DROP, NAK-SEQ … The runner keeps a model of the device: the PSN that it expects, how many messages it has
// executed, its memory. So "ACK" means the right PSN, the right MSN and the right data, "DROP" that nothing was executed, and the end
// of each case compares all memory that it can see. After each case it probes for life: a ping, a good WRITE on the same queue pair
// (made anew where the case ends it), and one on the bystander. A device that fails that hangs.
//
// All packets are recorded, and flows judges those of the device.
//
// # Verdicts
//
// What the catalogue leaves open, reports of a named implementation or cannot confirm is shown, and never fails a run; what a profile
// says that the device does not do is "documented"; what our RNIC and Linux do differently, without a third source, is "disputed".
//
// # Time and chance
//
// Against a device in memory the clock is driven: a run is deterministic, packet by packet, for a seed, and waits for nothing.
package suite
