// Package packetline puts a packet into words as a list of packets shows it: from,
// to, protocol, what matters of it, and what tracking says of it; and it knows
// the order in which a packet's layers are shown. Where these words stand, and in
// which colour, belongs to who shows them.
package packetline
