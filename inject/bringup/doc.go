// Package bringup takes a target, such as an RDMA core that nobody has spoken to yet, from its first ARP to data that survives loss: one
// step after the other, each needing what the steps before it proved. It stops at the first that fails, and says what that usually means
// in a core, and where to look.
//
// It owns the steps and what they mean. Connections belong to inject/peer, the protocol to inject/rnic, the loss to inject/fault; it
// prints nothing. A test of every rule belongs to inject/suite.
package bringup
