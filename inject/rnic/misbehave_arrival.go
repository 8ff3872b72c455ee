package rnic

import "github.com/rocescope/rocescope/dissect"

// What a device does wrong with what arrives, before it goes to requester or responder.

func addressUnchecked(_ *Device, do *behaviour) {
	do.checks[linkCheck].pass, do.checks[addressCheck].pass = pass, pass
}

func versionUnchecked(_ *Device, do *behaviour) { do.checks[versionCheck].pass = pass }

func qpnAliased(_ *Device, do *behaviour) {
	do.checks[qpnCheck].pass = func(a *arrival) bool {
		if a.q = a.dev.place(a.p.DestQP).Load(); a.q != nil && a.q.dev != a.dev {
			a.q = nil
		}
		return a.q != nil || a.p.DestQP == 1
	}
}

func transportUnchecked(_ *Device, do *behaviour) {
	before := do.checks[serviceCheck].pass
	do.checks[serviceCheck].pass = func(a *arrival) bool {
		return before(a) || a.q != nil && a.q.typ == dissect.RC && a.op.Transport == dissect.UD && answers[a.q.State()]
	}
	do.first(dissect.Request, func(a *arrival) bool {
		if a.op.Transport == a.q.typ {
			return true
		}
		if r := &a.q.rsp; a.p.PSN == r.ePSN {
			r.ePSN = r.ePSN.Add(1)
		}
		return false
	})
}

func pkeyUnchecked(_ *Device, do *behaviour) { do.checks[pkeyCheck].pass = pass }

func icrcUnchecked(_ *Device, do *behaviour) { do.checks[icrcCheck].pass = pass }

func icrcWithoutPad(_ *Device, do *behaviour) {
	before := do.checks[icrcCheck].pass
	do.checks[icrcCheck].pass = func(a *arrival) bool { return a.p.PadCount == 0 && before(a) }
	var crc dissect.ICRC
	do.spoiling(func(frame []byte, bth dissect.BTH) (int, bool) {
		if pad := int(bth.PadCnt()); pad > 0 {
			network, layer := networkOf(frame)
			sum := crc.Sum(frame[network:len(frame)-dissect.ICRCSize-pad], layer, bthOf(frame)-network)
			t := frame[len(frame)-dissect.ICRCSize:]
			t[0], t[1], t[2], t[3] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
		}
		return len(frame), false
	})
}

func dscpInICRC(_ *Device, do *behaviour) {
	before := do.checks[icrcCheck].pass
	do.checks[icrcCheck].pass = func(a *arrival) bool { return a.p.TrafficClass>>2 == 0 && before(a) }
}

func reservedChecked(_ *Device, do *behaviour) {
	before := do.checks[versionCheck].pass
	do.checks[versionCheck].pass = func(a *arrival) bool {
		bth := a.p.BTH(a.frame)
		return bth[4]&0x3F == 0 && bth[8]&0x7F == 0 && before(a)
	}
}

func migreqDropped(_ *Device, do *behaviour) {
	before := do.checks[versionCheck].pass
	do.checks[versionCheck].pass = func(a *arrival) bool {
		return (a.p.BTH(a.frame).MigReq() || a.op.Transport == dissect.CNP) && before(a)
	}
}

func cnpAsRequest(_ *Device, do *behaviour) {
	do.first(dissect.NoRole, func(a *arrival) bool {
		if a.op.Transport != dissect.CNP || a.q.typ != dissect.RC {
			return true
		}
		a.q.outOfSequence(a)
		return false
	})
}

func ghostResponseHang(_ *Device, do *behaviour) {
	do.first(dissect.Response, func(a *arrival) bool {
		r := &a.q.req
		if a.op.Family == dissect.Acknowledge || a.p.PSN.In(r.una, r.outstanding()) {
			return true
		}
		a.dev.hang()
		return false
	})
}

// A burst is frames of minimum size that are no further apart.
const (
	burstFrames = 10
	burstSize   = 64
	burstGap    = int64(100_000) // nanoseconds
)

func burstMute(d *Device, do *behaviour) {
	count, last := 0, int64(0)
	before := do.checks[linkCheck].pass
	do.checks[linkCheck].pass = func(a *arrival) bool {
		if len(a.frame) > burstSize || d.now-last > burstGap {
			count = 0
		}
		if len(a.frame) <= burstSize {
			count++
		}
		if last = d.now; count >= burstFrames {
			d.mute()
		}
		return before(a)
	}
}

func muteAfterRoCE(d *Device, do *behaviour) {
	do.first(dissect.Request, func(*arrival) bool {
		d.onOther = nil
		return true
	})
}

// ringSize is of the ring whose wrap is not survived.
const ringSize = 1024

func ringWrapHang(d *Device, do *behaviour) {
	count := 0
	do.first(dissect.Request, func(*arrival) bool {
		if count++; count > ringSize {
			d.hang()
		}
		return true
	})
}

// cmLimit is how many queue pairs there may have been before CM falls silent.
const cmLimit = 1000

func cmExhausted(d *Device, do *behaviour) {
	before := do.checks[qpnCheck].pass
	do.checks[qpnCheck].pass = func(a *arrival) bool {
		return (a.p.DestQP != 1 || d.nextQPN.Load()-d.opt.FirstQPN < cmLimit) && before(a)
	}
}
