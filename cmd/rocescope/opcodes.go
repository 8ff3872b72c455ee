package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/dissect"
)

func newOpcodesCommand(a *app) *cobra.Command {
	var form tableForm
	cmd := &cobra.Command{
		Use:   "opcodes",
		Short: "List the opcodes: headers, payload, and what may follow",
		Long: `List the opcodes of the base transport header: which headers follow in which
order, what payload is allowed, whether a receive WQE is consumed, and which
packet may come next. Opcodes that no text defines are left out; --json has all
256. In filters, an opcode goes by the name in capitals.`,
		Example: `  rocescope opcodes
  rocescope opcodes --json | jq '.[] | select(.role == "response") | .name'`,
		Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error { return a.printOpcodes(form) },
	}
	form.flags(cmd)
	return cmd
}

// opcodeRow is an opcode as `opcodes --json` lists it.
type opcodeRow struct {
	Code            int      `json:"code"`
	Name            string   `json:"name"`
	Token           string   `json:"token"` // in filters and JSON
	Defined         bool     `json:"defined"`
	Transport       string   `json:"transport"`
	Family          string   `json:"family"`
	Role            string   `json:"role"`
	Position        string   `json:"position"`
	Headers         []string `json:"headers"`      // extension headers behind the BTH, in wire order
	HeaderBytes     int      `json:"header_bytes"` // BTH included
	Payload         string   `json:"payload"`
	ConsumesReceive bool     `json:"consumes_receive"`
	Immediate       bool     `json:"immediate"`
	Invalidate      bool     `json:"invalidate"`
	MayFollow       []string `json:"may_be_followed_by"` // opcodes of the same stream and role, by token
}

func opcodeRows() []opcodeRow {
	ops := dissect.Opcodes()
	var rows []opcodeRow
	for i := range ops {
		o := &ops[i]
		r := opcodeRow{
			Code: int(o.Code), Name: o.Name, Token: o.Token, Defined: o.Defined(), Transport: o.Transport.String(),
			Family: o.Family.String(), Role: o.Role.String(), Position: o.Position.String(), Headers: []string{}, HeaderBytes: o.Len,
			Payload: o.Payload.String(), ConsumesReceive: o.Flags&dissect.ConsumesReceive != 0,
			Immediate: o.Flags&dissect.WithImm != 0, Invalidate: o.Flags&dissect.WithInv != 0, MayFollow: []string{},
		}
		for _, h := range o.Headers {
			r.Headers = append(r.Headers, shortLayer(h))
		}
		if o.Defined() && o.Role != dissect.NoRole {
			for k := range ops {
				if n := &ops[k]; n.Defined() && n.Transport == o.Transport && n.Role == o.Role && n.MayFollow(o) {
					r.MayFollow = append(r.MayFollow, n.Token)
				}
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// shortLayer is a header's short name: "RETH".
func shortLayer(l dissect.Layer) string {
	short, _, _ := strings.Cut(l.String(), " ")
	return short
}

func (a *app) printOpcodes(form tableForm) error {
	rows := opcodeRows()
	if form.json {
		return a.printJSON(rows)
	}
	t := table{columns: []string{"code", "opcode", "name in filters", "role", "headers behind the BTH", "payload", "receive WQE", "next"}, groups: "transport"}
	for i := range rows {
		r := &rows[i]
		if !r.Defined {
			continue
		}
		receive := ""
		if r.ConsumesReceive {
			receive = "yes"
		}
		token := r.Token
		if form.markdown {
			token = "`" + token + "`"
		}
		role := r.Role
		if role == "none" {
			role = ""
		}
		t.add(r.Transport, fmt.Sprintf("0x%02x", r.Code), r.Name, token, role, strings.Join(r.Headers, " "), r.Payload, receive, next(dissect.Opcode(r.Code).Info()))
	}
	if form.markdown {
		return a.printMarkdown("Opcodes", `The opcodes of the base transport header, as `+"`rocescope opcodes`"+` lists them; `+"`--json`"+` has all 256 rows. Payload: none,
exactly the path MTU (PMTU), up to it, or 8 bytes. A receive WQE is consumed at the end of a message. All other opcodes are
reserved, except 0xc0 to 0xff, which belong to manufacturers.`, &t)
	}
	return a.printTable(&t)
}

// next says what may come behind a packet.
func next(o *dissect.OpInfo) string {
	switch {
	case o.Role == dissect.NoRole:
		return ""
	case o.Ends():
		return "a new message"
	}
	return "Middle or Last"
}
