package xsk

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/asm"
)

const (
	xdpDrop = 1

	opRedirected = 4 // what bpf_redirect_map says when it will
)

// widths are the operand sizes by their number of bytes.
var widths = [...]asm.Size{1: asm.Byte, 2: asm.Half, 4: asm.Word, 8: asm.DWord}

// assembleLive writes the program that makes live frames. Maps are used by the addresses of their values, so that no helper is
// called but the ones that redirect a frame and move its bounds.
//
// Registers: R6 the context, R7 the queue pair's record, R8 the frame, R9 its ICRC. R0 to R5 do not survive helpers.
func assembleLive(p *livePlan, device, state, tables int) asm.Instructions {
	const ctx, record = asm.R6, asm.R7
	o := p.options
	var out asm.Instructions
	mark := ""
	op := func(ins ...asm.Instruction) {
		for _, i := range ins {
			if mark != "" {
				i, mark = i.WithSymbol(mark), ""
			}
			out = append(out, i)
		}
	}
	// count adds one to a number in the state.
	count := func(at int16) {
		op(asm.LoadMapValue(asm.R1, state, 0),
			asm.LoadMem(asm.R2, asm.R1, at, asm.DWord),
			asm.Add.Imm(asm.R2, 1),
			asm.StoreMem(asm.R1, at, asm.R2, asm.DWord))
	}
	last := len(p.kinds) - 1
	next := "sent" // where to go on within a message
	if o.Interleave {
		next = "turn"
	}

	op(asm.Mov.Reg(ctx, asm.R1),
		asm.LoadMapValue(record, state, 0),
		asm.LoadMem(asm.R2, record, stateUntil, asm.DWord),
		asm.LoadMem(asm.R3, record, stateSent, asm.DWord),
		asm.JGE.Reg(asm.R3, asm.R2, "drop"))
	op(asm.LoadMapPtr(asm.R1, device),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Imm(asm.R3, xdpDrop), // where the interface is gone
		asm.FnRedirectMap.Call(),
		asm.JNE.Imm(asm.R0, opRedirected, "gone"))
	op(asm.LoadMem(asm.R2, record, stateNext, asm.Word),
		asm.JGT.Imm(asm.R2, int32((len(o.QPs)-1)*p.record), "drop"),
		asm.Add.Imm(record, stateHeader),
		asm.Add.Reg(record, asm.R2))
	if last > 0 {
		op(asm.LoadMem(asm.R2, record, recordSegment, asm.Word),
			asm.JEq.Imm(asm.R2, 0, "kind0"),
			asm.JEq.Imm(asm.R2, int32(o.Segments-1), fmt.Sprintf("kind%d", last)))
	}
	for _, i := range [][]int{{0}, {0, 1}, {1, 0, 2}}[last] { // the middle one first, where the program is by now
		mark = fmt.Sprintf("kind%d", i)
		p.assembleKind(i, op, tables)
		if i == last {
			p.nextMessage(op)
		} else {
			op(asm.LoadMem(asm.R1, record, recordSegment, asm.Word),
				asm.Add.Imm(asm.R1, 1),
				asm.StoreMem(record, recordSegment, asm.R1, asm.Word))
			op(asm.Ja.Label(next))
		}
	}

	mark = "turn"
	op(asm.LoadMapValue(asm.R1, state, 0),
		asm.LoadMem(asm.R2, asm.R1, stateNext, asm.Word),
		asm.Add.Imm(asm.R2, int32(p.record)),
		asm.JLE.Imm(asm.R2, int32((len(o.QPs)-1)*p.record), "turned"),
		asm.Mov.Imm(asm.R2, 0))
	mark = "turned"
	op(asm.StoreMem(asm.R1, stateNext, asm.R2, asm.Word))
	mark = "sent"
	count(stateSent)
	op(asm.Mov.Imm(asm.R0, xdpRedirect), asm.Return())

	mark = "gone"
	count(stateGone)
	mark = "drop"
	op(asm.Mov.Imm(asm.R0, xdpDrop), asm.Return())
	return out
}

// assembleKind writes a frame of a kind, whatever was in the page.
func (p *livePlan) assembleKind(i int, op func(...asm.Instruction), tables int) {
	const ctx, record, frame, crc = asm.R6, asm.R7, asm.R8, asm.R9
	k := &p.kinds[i]
	move := func(helper asm.BuiltinFunc, n int) {
		if n != 0 {
			op(asm.Mov.Reg(asm.R1, ctx), asm.Mov.Imm(asm.R2, int32(n)), helper.Call(), asm.JNE.Imm(asm.R0, 0, "drop"))
		}
	}
	move(asm.FnXdpAdjustHead, k.skip)
	move(asm.FnXdpAdjustTail, -k.cut)
	op(asm.LoadMem(frame, ctx, ctxData, asm.Word),
		asm.LoadMem(asm.R2, ctx, ctxDataEnd, asm.Word),
		asm.Mov.Reg(asm.R3, frame),
		asm.Add.Imm(asm.R3, int32(k.length)),
		asm.JGT.Reg(asm.R3, asm.R2, "drop"))
	for _, patch := range k.patches {
		if !patch.same {
			op(asm.LoadMem(asm.R1, record, int16(patch.record), widths[patch.size]),
				asm.StoreMem(frame, int16(patch.at), asm.R1, widths[patch.size]))
			continue
		}
		at, v := patch.at, patch.value
		if patch.size == 8 { // an immediate has four bytes
			op(asm.StoreImm(frame, int16(at), int64(int32(binary.NativeEndian.Uint32(v))), asm.Word))
			at, v = at+4, v[4:]
		}
		switch len(v) {
		case 4:
			op(asm.StoreImm(frame, int16(at), int64(int32(binary.NativeEndian.Uint32(v))), asm.Word))
		case 2:
			op(asm.StoreImm(frame, int16(at), int64(int16(binary.NativeEndian.Uint16(v))), asm.Half))
		case 1:
			op(asm.StoreImm(frame, int16(at), int64(int8(v[0])), asm.Byte))
		}
	}

	op(asm.LoadMapValue(asm.R5, tables, uint32(k.tables)),
		asm.LoadMem(crc, record, int16(k.fixed+fixedCRC), asm.Word))
	// weigh XORs the weights of a number's n lowest bytes into the ICRC.
	weigh := func(number asm.Register, n, table int) {
		for b := range n {
			op(asm.Mov.Reg(asm.R3, number))
			if b == 0 {
				op(asm.LSh.Imm(asm.R3, 2))
			} else {
				op(asm.RSh.Imm(asm.R3, int32(8*b-2)))
			}
			op(asm.And.Imm(asm.R3, 0xFF<<2),
				asm.Add.Reg(asm.R3, asm.R5),
				asm.LoadMem(asm.R3, asm.R3, int16(table+b*tableSize), asm.Word),
				asm.Xor.Reg(crc, asm.R3))
		}
	}
	op(asm.LoadMem(asm.R1, record, recordPSN, asm.Word))
	weigh(asm.R1, 3, tablePSN)
	op(asm.LoadMem(asm.R2, record, int16(k.fixed+fixedFlags), asm.Word))
	op(asm.Or.Reg(asm.R2, asm.R1))
	if i == len(p.kinds)-1 && p.options.AckEvery > 0 {
		op(asm.LoadMem(asm.R3, record, recordAck, asm.Word),
			asm.Add.Imm(asm.R3, 1),
			asm.JLT.Imm(asm.R3, int32(p.options.AckEvery), "unasked"),
			asm.LoadMem(asm.R4, asm.R5, tableAck, asm.Word),
			asm.Xor.Reg(crc, asm.R4),
			asm.LoadImm(asm.R4, ackReq<<24, asm.DWord),
			asm.Or.Reg(asm.R2, asm.R4),
			asm.Mov.Imm(asm.R3, 0),
			asm.StoreMem(record, recordAck, asm.R3, asm.Word).WithSymbol("unasked"))
	}
	op(asm.HostTo(asm.BE, asm.R2, asm.Word),
		asm.StoreMem(frame, int16(k.PSN), asm.R2, asm.Word))
	step := int32(1)
	if i == len(p.kinds)-1 {
		step = int32(p.options.PSNStep)
	}
	op(asm.Add.Imm(asm.R1, step),
		asm.And.Imm(asm.R1, 0xFFFFFF),
		asm.StoreMem(record, recordPSN, asm.R1, asm.Word))
	if k.VA > 0 {
		if p.options.RandomVA {
			randomOffset(op)
		} else {
			op(asm.LoadMem(asm.R1, record, recordOffset, asm.DWord))
		}
		op(asm.LoadMem(asm.R2, record, recordVA, asm.DWord),
			asm.Add.Reg(asm.R1, asm.R2),
			asm.Mov.Reg(asm.R2, asm.R1),
			asm.HostTo(asm.BE, asm.R2, asm.DWord),
			asm.StoreMem(frame, int16(k.VA), asm.R2, asm.DWord))
		weigh(asm.R1, p.vaBytes, tableVA)
	}
	if k.Number > 0 {
		op(asm.LoadMem(asm.R1, record, recordNumber, asm.DWord),
			asm.Mov.Reg(asm.R2, asm.R1),
			asm.HostTo(asm.BE, asm.R2, asm.Word),
			asm.StoreMem(frame, int16(k.Number), asm.R2, asm.Word))
		weigh(asm.R1, 4, tableNum)
	}
	op(asm.HostTo(asm.LE, crc, asm.Word),
		asm.StoreMem(frame, int16(k.length-icrcSize), crc, asm.Word))
}

// randomOffset leaves in R1 where in its region the current message goes: the finalizer of SplitMix64 of the seed and the message's number.
func randomOffset(op func(...asm.Instruction)) {
	const record, x, y = asm.R7, asm.R1, asm.R2
	number := func(v uint64) asm.Instruction { return asm.LoadImm(y, int64(v), asm.DWord) }
	fold := func(shift int32) {
		op(asm.Mov.Reg(y, x), asm.RSh.Imm(y, shift), asm.Xor.Reg(x, y))
	}
	op(asm.LoadMem(x, record, recordNumber, asm.DWord),
		number(randomStride), asm.Mul.Reg(x, y),
		asm.LoadMem(y, record, recordSeed, asm.DWord), asm.Add.Reg(x, y),
		asm.Xor.Imm(x, randomSalt),
		number(splitMixAdd), asm.Add.Reg(x, y))
	fold(30)
	op(number(splitMixFirst), asm.Mul.Reg(x, y))
	fold(27)
	op(number(splitMixSecond), asm.Mul.Reg(x, y))
	fold(31)
	op(asm.LoadMem(y, record, recordSpan, asm.DWord), asm.Mod.Reg(x, y),
		asm.LoadMem(y, record, recordStep, asm.DWord), asm.Mul.Reg(x, y))
}

// nextMessage moves the record on behind a message's last frame.
func (p *livePlan) nextMessage(op func(...asm.Instruction)) {
	const record = asm.R7
	o := p.options
	if len(p.kinds) > 1 {
		op(asm.Mov.Imm(asm.R1, 0), asm.StoreMem(record, recordSegment, asm.R1, asm.Word))
	}
	if o.RandomVA || p.kinds[len(p.kinds)-1].Number > 0 {
		op(asm.LoadMem(asm.R1, record, recordNumber, asm.DWord),
			asm.Add.Imm(asm.R1, 1),
			asm.StoreMem(record, recordNumber, asm.R1, asm.DWord))
	}
	if o.Kinds[0].VA == 0 || o.RandomVA {
		return
	}
	// The next message begins again at 0 where it would go beyond the region.
	op(asm.LoadMem(asm.R1, record, recordOffset, asm.DWord),
		asm.LoadMem(asm.R2, record, recordStep, asm.DWord),
		asm.Add.Reg(asm.R1, asm.R2),
		asm.Add.Reg(asm.R2, asm.R1),
		asm.LoadMem(asm.R3, record, recordSpan, asm.DWord),
		asm.JLE.Reg(asm.R2, asm.R3, "within"),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(record, recordOffset, asm.R1, asm.DWord).WithSymbol("within"))
}
