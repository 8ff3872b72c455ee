package dissect

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// specOp is a row of the opcodes as the specification has them (IBA 9.2.1,
// annexes A14 and A19), written out apart from the table under test. A service
// that does not have the operation has "-", one that has it without extension
// headers has "".
type specOp struct {
	code                uint8
	name                string
	rc, uc, rd, ud, xrc string
	data                string
	role                string // as a person says it
}

var specOps = []specOp{
	{0x00, "SEND First", "", "", "RDETH DETH", "-", "XRCETH", "PMTU", "request first"},
	{0x01, "SEND Middle", "", "", "RDETH DETH", "-", "XRCETH", "PMTU", "request middle"},
	{0x02, "SEND Last", "", "", "RDETH DETH", "-", "XRCETH", "1..PMTU", "request last"},
	{0x03, "SEND Last with Immediate", "ImmDt", "ImmDt", "RDETH DETH ImmDt", "-", "XRCETH ImmDt", "1..PMTU", "request last"},
	{0x04, "SEND Only", "", "", "RDETH DETH", "DETH", "XRCETH", "0..PMTU", "request only"},
	{0x05, "SEND Only with Immediate", "ImmDt", "ImmDt", "RDETH DETH ImmDt", "DETH ImmDt", "XRCETH ImmDt", "0..PMTU", "request only"},
	{0x06, "RDMA WRITE First", "RETH", "RETH", "RDETH DETH RETH", "-", "XRCETH RETH", "PMTU", "request first"},
	{0x07, "RDMA WRITE Middle", "", "", "RDETH DETH", "-", "XRCETH", "PMTU", "request middle"},
	{0x08, "RDMA WRITE Last", "", "", "RDETH DETH", "-", "XRCETH", "1..PMTU", "request last"},
	{0x09, "RDMA WRITE Last with Immediate", "ImmDt", "ImmDt", "RDETH DETH ImmDt", "-", "XRCETH ImmDt", "1..PMTU", "request last"},
	{0x0A, "RDMA WRITE Only", "RETH", "RETH", "RDETH DETH RETH", "-", "XRCETH RETH", "0..PMTU", "request only"},
	{0x0B, "RDMA WRITE Only with Immediate", "RETH ImmDt", "RETH ImmDt", "RDETH DETH RETH ImmDt", "-", "XRCETH RETH ImmDt", "0..PMTU", "request only"},
	{0x0C, "RDMA READ Request", "RETH", "-", "RDETH DETH RETH", "-", "XRCETH RETH", "none", "request only"},
	{0x0D, "RDMA READ Response First", "AETH", "-", "RDETH AETH", "-", "AETH", "PMTU", "response first"},
	{0x0E, "RDMA READ Response Middle", "", "-", "RDETH", "-", "", "PMTU", "response middle"},
	{0x0F, "RDMA READ Response Last", "AETH", "-", "RDETH AETH", "-", "AETH", "1..PMTU", "response last"},
	{0x10, "RDMA READ Response Only", "AETH", "-", "RDETH AETH", "-", "AETH", "0..PMTU", "response only"},
	{0x11, "Acknowledge", "AETH", "-", "RDETH AETH", "-", "AETH", "none", "response only"},
	{0x12, "ATOMIC Acknowledge", "AETH AtomicAckETH", "-", "RDETH AETH AtomicAckETH", "-", "AETH AtomicAckETH", "none", "response only"},
	{0x13, "Compare Swap", "AtomicETH", "-", "RDETH DETH AtomicETH", "-", "XRCETH AtomicETH", "none", "request only"},
	{0x14, "Fetch Add", "AtomicETH", "-", "RDETH DETH AtomicETH", "-", "XRCETH AtomicETH", "none", "request only"},
	{0x15, "RESYNC", "-", "-", "RDETH DETH", "-", "-", "none", "request only"},
	{0x16, "SEND Last with Invalidate", "IETH", "-", "-", "-", "XRCETH IETH", "1..PMTU", "request last"},
	{0x17, "SEND Only with Invalidate", "IETH", "-", "-", "-", "XRCETH IETH", "0..PMTU", "request only"},
	{0x18, "", "-", "-", "-", "-", "-", "", ""},
	{0x19, "", "-", "-", "-", "-", "-", "", ""},
	{0x1A, "", "-", "-", "-", "-", "-", "", ""},
	{0x1B, "", "-", "-", "-", "-", "-", "", ""},
	{0x1C, "FLUSH", "FETH RETH", "-", "-", "-", "-", "none", "request only"},
	{0x1D, "ATOMIC WRITE", "RETH", "-", "-", "-", "-", "8", "request only"},
	{0x1E, "", "-", "-", "-", "-", "-", "", ""},
	{0x1F, "", "-", "-", "-", "-", "-", "", ""},
}

// headerBytes are the extension headers' lengths, written out apart from the
// table under test.
var headerBytes = map[string]int{
	"RDETH": 4, "XRCETH": 4, "DETH": 8, "FETH": 4, "RETH": 16, "AtomicETH": 28, "AETH": 4, "AtomicAckETH": 8, "ImmDt": 4, "IETH": 4,
}

// short is a header's name without its explanation.
func short(l Layer) string { return strings.SplitN(l.String(), " ", 2)[0] }

func TestOpcodeTable(t *testing.T) {
	if len(specOps) != 32 {
		t.Fatalf("%d rows written out", len(specOps))
	}
	for _, s := range specOps {
		for tr, headers := range map[Transport]string{RC: s.rc, UC: s.uc, RD: s.rd, UD: s.ud, XRC: s.xrc} {
			o := (Opcode(tr)<<5 | Opcode(s.code)).Info()
			if o.Transport != tr {
				t.Errorf("%#x: transport %v, want %v", o.Code, o.Transport, tr)
			}
			if headers == "-" {
				if o.Family != Reserved || o.Defined() || len(o.Headers) != 0 || o.Len != 12 {
					t.Errorf("%#x %s: want reserved, without headers", o.Code, o.Name)
				}
				continue
			}
			var have []string
			length := 12
			for _, h := range o.Headers {
				have = append(have, short(h))
				if !o.Has(h) {
					t.Errorf("%s: header %v is not in its set", o.Name, h)
				}
			}
			for _, h := range strings.Fields(headers) {
				length += headerBytes[h]
			}
			if got := strings.Join(have, " "); got != headers {
				t.Errorf("%s: headers %q, want %q", o.Name, got, headers)
			}
			if o.Len != length {
				t.Errorf("%s: %d bytes of headers, want %d", o.Name, o.Len, length)
			}
			if want := tr.String() + " " + s.name; o.Name != want || o.Code.String() != want {
				t.Errorf("%#x: name %q, want %q", o.Code, o.Name, want)
			}
			if got := o.Payload.String(); got != s.data {
				t.Errorf("%s: payload %s, want %s", o.Name, got, s.data)
			}
			if got := o.Role.String() + " " + o.Position.String(); got != s.role {
				t.Errorf("%s: %s, want %s", o.Name, got, s.role)
			}
			if got, want := o.Flags&WithImm != 0, strings.Contains(headers, "ImmDt"); got != want {
				t.Errorf("%s: with immediate is %v", o.Name, got)
			}
			if got, want := o.Flags&WithInv != 0, strings.Contains(headers, "IETH"); got != want {
				t.Errorf("%s: with invalidate is %v", o.Name, got)
			}
			if got, want := o.Flags&ConsumesReceive != 0, strings.HasPrefix(s.name, "SEND") || strings.Contains(headers, "ImmDt"); got != want {
				t.Errorf("%s: consumes a receive is %v", o.Name, got)
			}
			if !o.Defined() {
				t.Errorf("%s: not defined", o.Name)
			}
		}
	}
}

func TestOpcodesOutsideOfTheServices(t *testing.T) {
	for code := 0x80; code < 0xA0; code++ {
		o := Opcode(code).Info()
		cnp := code == 0x80 || code == 0x81 // annex A10, annex A17
		if o.Transport != CNP || (o.Family == Congestion) != cnp || o.Len != 12 || o.Role != NoRole {
			t.Errorf("%#x: %+v", code, o)
		}
	}
	if Opcode(0x81) != OpCNP || OpCNP.Info().Token != "CNP" {
		t.Error("the CNP of RoCE v2 is 0x81")
	}
	for code := 0xC0; code <= 0xFF; code++ {
		o := Opcode(code).Info()
		if o.Family != Vendor || o.Transport != Manufacturer || o.Defined() || o.Len != 12 || o.Payload != AnyPayload {
			t.Errorf("%#x: %+v", code, o)
		}
	}
	all := Opcodes()
	if len(all) != 256 {
		t.Fatalf("%d rows", len(all))
	}
	for i := range all {
		if int(all[i].Code) != i {
			t.Errorf("row %d has code %#x", i, all[i].Code)
		}
	}
}

func TestOpcodeTokens(t *testing.T) {
	snake := regexp.MustCompile(`^[A-Z0-9]+(_[A-Z0-9]+)*$`)
	seen := map[string]Opcode{}
	for _, o := range Opcodes() {
		if !snake.MatchString(o.Token) {
			t.Errorf("%#x: token %q is not in upper snake case", o.Code, o.Token)
		}
		if prev, ok := seen[o.Token]; ok {
			t.Errorf("token %q is that of %#x and of %#x", o.Token, prev, o.Code)
		}
		seen[o.Token] = o.Code
	}
	for token, code := range map[string]Opcode{
		"RC_RDMA_WRITE_FIRST": 0x06, "RC_SEND_ONLY_WITH_INVALIDATE": 0x17, "UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE": 0x2B, "RD_RESYNC": 0x55,
		"UD_SEND_ONLY": 0x64, "XRC_ATOMIC_ACKNOWLEDGE": 0xB2, "RC_ACKNOWLEDGE": 0x11, "RC_COMPARE_SWAP": 0x13, "RC_FLUSH": 0x1C, "RC_ATOMIC_WRITE": 0x1D, "CNP": 0x81,
	} {
		if got, ok := seen[token]; !ok || got != code {
			t.Errorf("token %s is that of %#x, want %#x", token, got, code)
		}
	}
}

func TestOpcodeConstants(t *testing.T) {
	for code, name := range map[Opcode]string{
		OpRCSendFirst: "RC SEND First", OpRCSendMiddle: "RC SEND Middle", OpRCSendLast: "RC SEND Last", OpRCSendLastImm: "RC SEND Last with Immediate",
		OpRCSendOnly: "RC SEND Only", OpRCSendOnlyImm: "RC SEND Only with Immediate", OpRCWriteFirst: "RC RDMA WRITE First", OpRCWriteMiddle: "RC RDMA WRITE Middle",
		OpRCWriteLast: "RC RDMA WRITE Last", OpRCWriteLastImm: "RC RDMA WRITE Last with Immediate", OpRCWriteOnly: "RC RDMA WRITE Only",
		OpRCWriteOnlyImm: "RC RDMA WRITE Only with Immediate", OpRCReadRequest: "RC RDMA READ Request", OpRCReadResponseFirst: "RC RDMA READ Response First",
		OpRCReadResponseMid: "RC RDMA READ Response Middle", OpRCReadResponseLast: "RC RDMA READ Response Last", OpRCReadResponseOnly: "RC RDMA READ Response Only",
		OpRCAcknowledge: "RC Acknowledge", OpRCAtomicAcknowledge: "RC ATOMIC Acknowledge", OpRCCompareSwap: "RC Compare Swap", OpRCFetchAdd: "RC Fetch Add",
		OpRCSendLastInv: "RC SEND Last with Invalidate", OpRCSendOnlyInv: "RC SEND Only with Invalidate", OpUDSendOnly: "UD SEND Only",
		OpUDSendOnlyImm: "UD SEND Only with Immediate", OpIBCNP: "IB CNP", OpCNP: "CNP",
	} {
		if code.String() != name {
			t.Errorf("%#x is %q, want %q", uint8(code), code, name)
		}
	}
}

// Every defined opcode is found again by its properties.
func TestOpcodeOf(t *testing.T) {
	for _, o := range Opcodes() {
		if !o.Defined() || o.Transport == CNP {
			continue
		}
		if got, ok := OpcodeOf(o.Transport, o.Family, o.Role, o.Position, o.Flags); !ok || got != o.Code {
			t.Errorf("%s: found %v", o.Name, got)
		}
	}
	if _, ok := OpcodeOf(UC, Read, Request, Only, 0); ok {
		t.Error("UC has no READ")
	}
}

// follow says which packets may come next, as the specification has it: for
// requests IBA 9.7.4.1.1, for responses IBA 9.7.5.1 and what a READ that is
// sent again does.
var follow = map[string]string{
	"SEND First":                "SEND Middle, SEND Last, SEND Last with Immediate, SEND Last with Invalidate",
	"SEND Middle":               "SEND Middle, SEND Last, SEND Last with Immediate, SEND Last with Invalidate",
	"RDMA WRITE First":          "RDMA WRITE Middle, RDMA WRITE Last, RDMA WRITE Last with Immediate",
	"RDMA WRITE Middle":         "RDMA WRITE Middle, RDMA WRITE Last, RDMA WRITE Last with Immediate",
	"RDMA READ Response First":  "RDMA READ Response Middle, RDMA READ Response Last, Acknowledge, RDMA READ Response First, RDMA READ Response Only",
	"RDMA READ Response Middle": "RDMA READ Response Middle, RDMA READ Response Last, Acknowledge, RDMA READ Response First, RDMA READ Response Only",
}

const (
	startRequests  = "SEND First, SEND Only, SEND Only with Immediate, SEND Only with Invalidate, RDMA WRITE First, RDMA WRITE Only, RDMA WRITE Only with Immediate, RDMA READ Request, Compare Swap, Fetch Add, RESYNC, FLUSH, ATOMIC WRITE"
	startResponses = "RDMA READ Response First, RDMA READ Response Only, Acknowledge, ATOMIC Acknowledge"
)

func TestMayFollow(t *testing.T) {
	operation := func(o *OpInfo) string { return strings.TrimPrefix(o.Name, o.Transport.String()+" ") }
	all := Opcodes()
	for i := range all {
		prev := &all[i]
		if !prev.Defined() || prev.Transport == CNP {
			continue
		}
		for j := range all {
			next := &all[j]
			if next.Role != prev.Role || !next.Defined() {
				continue
			}
			starts := startRequests
			if prev.Role == Response {
				starts = startResponses
			}
			allowed, inside := follow[operation(prev)]
			if !inside {
				allowed = starts
			}
			want := next.Transport == prev.Transport && slices.Contains(strings.Split(allowed, ", "), operation(next))
			if got := next.MayFollow(prev); got != want {
				t.Errorf("%s behind %s: %v, want %v", next.Name, prev.Name, got, want)
			}
			if got, want := next.MayFollow(nil), slices.Contains(strings.Split(starts, ", "), operation(next)); got != want {
				t.Errorf("%s as the first: %v, want %v", next.Name, got, want)
			}
		}
	}
}
