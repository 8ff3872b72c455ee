package exchange

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/flows"
)

func TestExample(t *testing.T) {
	all, err := Parse("exchanges.yaml", []byte(Example))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Name != "lab benchmark" || len(all[1].Ports) != 2 {
		t.Fatalf("%+v", all)
	}
	text, client, server := all[0].Messages[0], all[1].Messages[0], all[1].Messages[1]
	if text.End != "\n" || text.Base != 10 || text.Client || text.Server {
		t.Errorf("%+v", text)
	}
	if !client.Client || client.Size != 32 || !client.Little || string(client.Begins) != "RDMA" || len(client.Fields) != 5 {
		t.Errorf("%+v", client)
	}
	if m := server.Fields[0]; !server.Server || m.Field != "mtu" || m.Offset != 12 || m.Size != 2 {
		t.Errorf("%+v", server)
	}
}

func TestErrors(t *testing.T) {
	const head = "exchanges:\n- name: ours\n  ports: [18600]\n  messages:\n"
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "f.yaml: it has no exchanges: a list of {name: NAME, ports: [PORT], messages: [...]}"},
		{"a key", "exchange: []\n", "f.yaml:1: \"exchange\" is no key here; there are exchanges\n  exchange: []\n  ^"},
		{"no name", "exchanges:\n- ports: [1]\n", "f.yaml:2: this exchange has no name\n  - ports: [1]"},
		{"a port", "exchanges:\n- name: ours\n  ports: [70000]\n", "f.yaml:3: ports: \"70000\" is no TCP port, which is from 1 to 65535\n    ports: [70000]\n            ^"},
		{"a port twice", head + "  - text: '(?P<qpn>.*)'\n- name: more\n  ports: [18600]\n", "f.yaml:7: port 18600 is that of \"ours\" already: a connection has one exchange\n    ports: [18600]\n            ^"},
		{"no message", "exchanges:\n- name: ours\n", "f.yaml:2: \"ours\" has no messages: a list of {text: PATTERN} or {size: BYTES, fields: {qpn: {offset: 0}}}\n  - name: ours\n          ^"},
		{"a pattern", head + "  - text: '(qpn'\n", "f.yaml:5: text: missing closing ): `(qpn`\n    - text: '(qpn'\n            ^"},
		{"a group", head + "  - text: '(?P<qp>.*)'\n", "f.yaml:5: text: the group \"qp\" is no field; there are qpn, psn, gid, lid, rkey, vaddr, mtu, and the other side's with peer_ before them\n    - text: '(?P<qp>.*)'\n            ^"},
		{"no QPN", head + "  - text: '(?P<psn>.*)'\n", "f.yaml:5: the message has no field qpn, nor peer_qpn\n    - text: '(?P<psn>.*)'\n            ^"},
		{"a side that is not named", head + "  - text: '(?P<qpn>.) (?P<peer_psn>.)'\n", "f.yaml:5: peer_psn is told, and peer_qpn is not\n    - text: '(?P<qpn>.) (?P<peer_psn>.)'\n            ^"},
		{"text anywhere", "exchanges:\n- name: ours\n  messages:\n  - text: '(?P<qpn>.*)'\n", "f.yaml:2: \"ours\" has no ports: text is looked for on the server's ports only\n  - name: ours\n          ^"},
		{"both kinds", head + "  - text: '(?P<qpn>.*)'\n    size: 4\n", "f.yaml:5: a message is text or binary: with text there are no size, order, begins and fields\n    - text: '(?P<qpn>.*)'\n            ^"},
		{"both kinds in one exchange", head + "  - text: '(?P<qpn>.*)'\n  - size: 4\n    fields: {qpn: {offset: 0}}\n", "f.yaml:6: text and binary messages cannot be in one exchange\n    - size: 4\n            ^"},
		{"neither", head + "  - from: client\n", "f.yaml:5: this message has neither text, a regular expression, nor size, its length in bytes\n    - from: client\n            ^"},
		{"who", head + "  - from: me\n", "f.yaml:5: from: \"me\" is none of client, server, both\n    - from: me\n            ^"},
		{"a base", head + "  - text: '(?P<qpn>.*)'\n    base: 8\n", "f.yaml:6: base: \"8\" is neither 10 nor 16\n      base: 8\n            ^"},
		{"a size", head + "  - size: 5000\n", "f.yaml:5: size: \"5000\" is not from 1 to 4096\n    - size: 5000\n            ^"},
		{"beyond the end", head + "  - size: 16\n    fields:\n      qpn: {offset: 13}\n", "f.yaml:7: qpn: offset: \"13\" is not from 0 to 12\n        qpn: {offset: 13}\n                      ^"},
		{"a field's size", head + "  - size: 16\n    fields:\n      qpn: {offset: 0, size: 2}\n", "f.yaml:7: qpn: size: it has 4 or 3 bytes\n        qpn: {offset: 0, size: 2}\n                               ^"},
		{"a field", head + "  - size: 16\n    fields:\n      qp: {offset: 0}\n", "f.yaml:7: fields: \"qp\" is no field; there are qpn, psn, gid, lid, rkey, vaddr, mtu, and the other side's with peer_ before them\n        qp: {offset: 0}\n                     ^"},
		{"an order", head + "  - size: 16\n    order: middle\n", "f.yaml:6: order: \"middle\" is neither big nor little\n      order: middle\n             ^"},
		{"what it begins with", head + "  - size: 16\n    begins: \"hello\"\n", "f.yaml:6: begins: \"hello\" are no bytes in hexadecimal digits, such as \"52 44 4d 41\"\n      begins: \"hello\"\n              ^"},
		{"binary anywhere", "exchanges:\n- name: ours\n  messages:\n  - size: 16\n    begins: 52 44\n    fields: {qpn: {offset: 2}}\n", "f.yaml:4: \"ours\" has no ports: then each message begins with at least 4 bytes that tell it (\"begins\")\n    - size: 16\n            ^"},
		{"not told apart", head + "  - size: 16\n    fields: {qpn: {offset: 2}}\n  - size: 8\n    fields: {qpn: {offset: 2}}\n", "f.yaml:7: two binary messages of one side are told apart by what they begin with: give both \"begins\"\n    - size: 8\n            ^"},
	} {
		_, err := Parse("f.yaml", []byte(c.text))
		if err == nil {
			t.Errorf("%s: no error", c.name)
		} else if err.Error() != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, err, c.want)
		}
	}
}

// FuzzParse reads any text. What it makes a description of has what descriptions have.
func FuzzParse(f *testing.F) {
	f.Add(Example)
	f.Add("exchanges:\n- name: ours\n  ports: [1]\n  messages:\n  - size: 16\n    fields: {peer_qpn: {offset: 2}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Parse("f.yaml", []byte(text))
		if err != nil {
			return
		}
		for _, x := range all {
			if x.Name == "" || len(x.Messages) == 0 {
				t.Fatalf("%+v", x)
			}
			for _, m := range x.Messages {
				if m.Pattern != nil && m.End == "" || m.Pattern == nil && m.Size <= 0 {
					t.Fatalf("%+v", m)
				}
				for _, p := range m.Fields {
					if p.Offset < 0 || p.Offset+p.Size > m.Size {
						t.Fatalf("%+v in %d bytes", p, m.Size)
					}
				}
			}
		}
	})
}

// TestPage holds docs/exchanges.md to the example and to the table of fields.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/exchanges.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```yaml\n"+Example+"```\n") {
		t.Error("the page has not the example of internal/exchange/examples/exchanges.yaml")
	}
	for _, f := range flows.ExchangeFields {
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", f.Name, sizes(f.Sizes), f.What); !strings.Contains(string(page), row) {
			t.Errorf("the page has not the row %s", row)
		}
	}
}
