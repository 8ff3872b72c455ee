// Package stream sends RoCE v2 traffic open-loop: messages of all kinds, on many queue pairs, at a rate, whatever the other
// end says; and it accounts for what the other end says.
//
// The package owns intent, segmentation, PSNs and pacing. How frames get out belongs to inject/port, what they look like to
// dissect, and whether the traffic is right by the rules to flows.
//
// # The model
//
// A plan is made before the first frame leaves: each operation and size of the mix becomes a shape, which is the templates of
// its packets (First, Middle, Last or Only, as the opcode table has them). A template is a frame whose headers and payload
// are settled, but for a few words that differ from packet to packet. It is written into a port's slot once, and patched there
// from then on: the words, and the ICRC, which comes from tables (dissect.ICRCTables) and not from the payload.
//
// What a QP sends is a function of the seed, the QP and the number of the message. So a run repeats exactly, however many
// threads it has; a QP can go back to a PSN that it was asked for; and who looks at the answers knows by itself which message
// a PSN belongs to.
//
// A sender is a goroutine with a port (a queue of an interface) and a share of the QPs. Answers have a goroutine of their
// own, for all ports. The two share per QP a few atomic words, on a cache line of their own, and nothing else.
package stream
