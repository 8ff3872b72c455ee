// Package lab is a laboratory with a real RoCE v2 stack in it: a small virtual machine with Debian's kernel, its soft-RoCE
// driver and the usual RDMA programs, whose network card is a tap.
//
// It owns the guest: building it (Build), booting it (Boot), running programs in it (Guest.Start), reading its
// counters, and the namespace that all of this happens in (Enter). What is run against the guest and what must come of
// it belongs to lab/interop and its neighbours.
//
// The guest is one file, an initial ram file system, which holds nothing but the programs named in image.go, the
// libraries and kernel modules that these need, and an agent that is the guest's only process until the laboratory asks
// for more. It is put together from Debian's packages without installing any, and kept in the user's cache folder by
// the packages' versions. Nothing of it touches the machine: no module is loaded, no KVM is needed, and the namespace,
// the tap and the guest end with the program that made them, whatever becomes of it.
package lab
