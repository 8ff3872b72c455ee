package xsk

import "errors"

// ErrUnknown is a feature's error where only trying it would tell, and trying it would disturb traffic.
var ErrUnknown = errors.New("not known without trying")

// Features is what an interface, its driver and this kernel can do. Of each feature there is an error: nil if it is there,
// [ErrNotSupported] with the reason if not, [ErrPrivilege] if it could not be asked for, [ErrUnknown] if only trying tells.
type Features struct {
	Kernel    string // release, as of uname
	Interface string
	Index     int
	MTU       int
	Up        bool
	Driver    string // "veth", "mlx5_core"; empty if it does not say
	Bus       string // where the device sits: "0000:3b:00.0"
	Queues    Queues
	// Missing are the capabilities that this process lacks to do everything.
	Missing []string
	// HugePagesFree is how many huge pages of 2 MiB nobody has.
	HugePagesFree int
	// ProgramID is the XDP program that is attached now, 0 if there is none. Another can not be attached beside it.
	ProgramID uint32
	// RxVLANStripped: the driver takes VLAN tags off before XDP sees the frame, and captures will lack them
	// (ethtool -K IF rxvlan off).
	RxVLANStripped bool
	// SingleBufferMTU is the largest MTU for which a received frame fits into one page, as a program must have it that is not
	// aware of fragments.
	SingleBufferMTU int
	// ZeroCopySegments is how many chunks a zero-copy frame may take; 0 if the kernel does not say.
	ZeroCopySegments int

	AFXDP       error // sockets, in copy mode
	Generic     error // XDP in the kernel's receive path
	Native      error // XDP in the driver
	NativeFrags error // and with frames of more than one page
	Redirect    error // takes frames that XDP programs redirect to it, and live frames
	Frags       error // programs that are aware of fragments
	ZeroCopy    error
	MultiBuffer error // frames of more than one chunk
	// ZeroCopyMultiBuffer is both at once.
	ZeroCopyMultiBuffer error
	NeedWakeup          error
	TxBudget            error // XDP_MAX_TX_SKB_BUDGET
	TxMetadata          error // the area before sent frames
	TxTimestamp         error // by the NIC; copy mode has them in software with TxMetadata
	TxChecksum          error // by the NIC
	TxLaunchTime        error // by the NIC
	HugePages           error
}

// Queues is how many receive and send queues an interface uses. Both are 0 if it does not say.
type Queues struct{ RX, TX int }

func (q Queues) known() bool { return q.RX > 0 && q.TX > 0 }

// Feature is one row of Features, for people.
type Feature struct {
	Name string
	What string
	Err  error
}

// List is all features, with what each is good for.
func (f *Features) List() []Feature {
	return []Feature{
		{"AF_XDP", "send and receive frames past the kernel's network stack", f.AFXDP},
		{"generic XDP", "redirect frames on any interface, slowly", f.Generic},
		{"native XDP", "redirect frames in the driver", f.Native},
		{"redirection", "XDP programs send through it, and live frames: the fastest sender on virtual links", f.Redirect},
		{"native XDP fragments", "frames of more than one page in the driver, as RoCE MTU 4096 needs", f.NativeFrags},
		{"fragment-aware programs", "XDP programs that know of frames of more than one page", f.Frags},
		{"multi-buffer", "frames longer than a chunk of 4096 bytes, as RoCE MTU 4096 needs", f.MultiBuffer},
		{"zero-copy", "the NIC reads and writes our memory itself", f.ZeroCopy},
		{"zero-copy multi-buffer", "zero-copy for frames longer than a chunk", f.ZeroCopyMultiBuffer},
		{"need-wakeup", "system calls only when the driver wants one", f.NeedWakeup},
		{"transmit budget", "more than 32 frames a system call in copy mode", f.TxBudget},
		{"transmit metadata", "software time stamps and checksums for sent frames", f.TxMetadata},
		{"hardware transmit time stamps", "when the NIC sent a frame", f.TxTimestamp},
		{"hardware transmit checksums", "checksums by the NIC", f.TxChecksum},
		{"launch time", "the NIC holds a frame until its time", f.TxLaunchTime},
		{"huge pages", "fewer page faults and TLB misses in the UMEM", f.HugePages},
	}
}
