// Package connect is how two queue pairs get to know each other: by CM on QP 1, by a socket, or by numbers given by hand.
//
// It owns the conversations before and after the traffic, and what each end says in them (Parameters):
//
//   - CM: both sides of the communication management of the specification's chapter 12, as rdma_cm uses it: connections with
//     REQ, REP, RTU, REJ, MRA, DREQ and DREP, datagram services with SIDR.
//   - Perftest, Pingpong, Exchange: the text messages of perftest's programs, those of ibv_rc_pingpong and its kin, and
//     rocescope's own JSON lines, which tell memory too. Server answers all of them on one port.
//   - ParseParameters: numbers by hand, for cores that are set up through registers.
//   - Host and Resolver: ARP, neighbour discovery and echo for an address that the kernel does not have; Quiet keeps the
//     kernel from answering RoCE packets with ICMP.
//
// It makes no queue pair and moves none through its states: that belongs to its users, which get Parameters and give some.
// CM, Host and Resolver have no clock, no goroutine and no socket of their own. They are handed frames and the time, and
// hand frames to a function. They serve one goroutine.
package connect
