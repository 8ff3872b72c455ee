// Package exchange reads descriptions of how programs tell each other their queue pairs over TCP, from YAML files that users
// write for their own programs.
//
// It owns the file: its keys, and what cannot be in them. What is done with a description is flows' affair (flows.Exchange).
package exchange

import (
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/config"
)

// Example is a file that has one of each kind.
//
//go:embed examples/exchanges.yaml
var Example string

type file struct {
	Exchanges []exchangeText `yaml:"exchanges"`
}

type exchangeText struct {
	Name     config.Text   `yaml:"name"`
	Ports    []config.Text `yaml:"ports"`
	Messages []messageText `yaml:"messages"`
}

type messageText struct {
	From   *config.Text         `yaml:"from"`
	Text   *config.Text         `yaml:"text"`
	End    *config.Text         `yaml:"end"`
	Base   *config.Text         `yaml:"base"`
	Size   *config.Text         `yaml:"size"`
	Order  *config.Text         `yaml:"order"`
	Begins *config.Text         `yaml:"begins"`
	Fields map[string]placeText `yaml:"fields"`
}

type placeText struct {
	Offset config.Text  `yaml:"offset"`
	Size   *config.Text `yaml:"size"`
}

// ReadFile reads a file.
func ReadFile(name string) ([]flows.Exchange, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, data)
}

// Parse reads a file's text; name is what errors call it.
func Parse(name string, data []byte) ([]flows.Exchange, error) {
	doc, err := config.Parse(name, data)
	if err != nil {
		return nil, err
	}
	var f file
	if err := doc.Decode(&f); err != nil {
		var e *config.Error
		if errors.As(err, &e) && e.Key != "" {
			e.Reason += "; there are " + strings.Join(e.Known, ", ")
		}
		return nil, err
	}
	if len(f.Exchanges) == 0 {
		return nil, doc.Error(0, 0, "it has no exchanges: a list of {name: NAME, ports: [PORT], messages: [...]}")
	}
	r := reader{doc: doc, ports: map[uint16]string{}}
	var all []flows.Exchange
	for i := range f.Exchanges {
		x, err := r.exchange(&f.Exchanges[i])
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// reader reads one file.
type reader struct {
	doc   *config.Document
	ports map[uint16]string // whose they are
}

// at is an error at a value.
func (r *reader) at(t config.Text, format string, args ...any) error {
	return r.doc.Error(t.Line, t.Column, format, args...)
}

func (r *reader) exchange(t *exchangeText) (x flows.Exchange, err error) {
	if t.Name.Value == "" {
		return x, r.doc.Error(t.line(), 0, "this exchange has no name")
	}
	x.Name = t.Name.Value
	for _, p := range t.Ports {
		n, err := strconv.ParseUint(p.Value, 10, 16)
		port := uint16(n)
		switch {
		case err != nil || n == 0:
			return x, r.at(p, "ports: %q is no TCP port, which is from 1 to 65535", p.Value)
		case r.ports[port] != "":
			return x, r.at(p, "port %d is that of %q already: a connection has one exchange", port, r.ports[port])
		}
		r.ports[port] = x.Name
		x.Ports = append(x.Ports, port)
	}
	if len(t.Messages) == 0 {
		return x, r.at(t.Name, "%q has no messages: a list of {text: PATTERN} or {size: BYTES, fields: {qpn: {offset: 0}}}", x.Name)
	}
	for i := range t.Messages {
		m, err := r.message(&t.Messages[i], t)
		if err != nil {
			return x, err
		}
		if i > 0 && (m.Pattern == nil) != (x.Messages[0].Pattern == nil) {
			return x, r.at(t.Messages[i].first(t.Name), "text and binary messages cannot be in one exchange")
		}
		for j := range x.Messages {
			if o := &x.Messages[j]; m.Pattern == nil && (len(m.Begins) == 0 || len(o.Begins) == 0) && bothSend(&m, o) {
				return x, r.at(t.Messages[i].first(t.Name), "two binary messages of one side are told apart by what they begin with: give both \"begins\"")
			}
		}
		x.Messages = append(x.Messages, m)
	}
	return x, nil
}

// bothSend reports whether one side sends messages of both forms.
func bothSend(a, b *flows.ExchangeMessage) bool {
	return a.Client == a.Server || b.Client == b.Server || a.Client == b.Client
}

// line is where the exchange is in the file, as far as its values tell.
func (t *exchangeText) line() int {
	line := 0
	for _, p := range t.Ports {
		line = p.Line
	}
	for i := range t.Messages {
		if at := t.Messages[i].first(config.Text{}); line == 0 {
			line = at.Line
		}
	}
	return line
}

// first is a value of the message to point at.
func (t *messageText) first(or config.Text) config.Text {
	for _, v := range []*config.Text{t.Text, t.Size, t.Begins, t.From, t.End, t.Base, t.Order} {
		if v != nil {
			return *v
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		return t.Fields[name].Offset
	}
	return or
}

func (r *reader) message(t *messageText, x *exchangeText) (m flows.ExchangeMessage, err error) {
	if t.From != nil {
		switch t.From.Value {
		case "client":
			m.Client = true
		case "server":
			m.Server = true
		case "both":
		default:
			return m, r.at(*t.From, "from: %q is none of client, server, both", t.From.Value)
		}
	}
	switch {
	case t.Text != nil && (t.Size != nil || t.Order != nil || t.Begins != nil || t.Fields != nil):
		return m, r.at(*t.Text, "a message is text or binary: with text there are no size, order, begins and fields")
	case t.Text != nil:
		return m, r.text(t, x, &m)
	case t.Size == nil:
		return m, r.at(t.first(x.Name), "this message has neither text, a regular expression, nor size, its length in bytes")
	case t.End != nil || t.Base != nil:
		return m, r.at(*t.Size, "a message is text or binary: with size there are no end and base")
	}
	return m, r.binary(t, x, &m)
}

// text reads a message that is text.
func (r *reader) text(t *messageText, x *exchangeText, m *flows.ExchangeMessage) (err error) {
	if len(x.Ports) == 0 {
		return r.at(x.Name, "%q has no ports: text is looked for on the server's ports only", x.Name.Value)
	}
	if m.Pattern, err = regexp.Compile(t.Text.Value); err != nil {
		return r.at(*t.Text, "text: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	named := map[string]bool{}
	for _, name := range m.Pattern.SubexpNames() {
		if name == "" {
			continue
		}
		if f, _ := flows.LookupExchangeField(name); f == nil {
			return r.at(*t.Text, "text: the group %q is no field; there are %s", name, fields())
		}
		named[name] = true
	}
	if err := r.qpn(*t.Text, named); err != nil {
		return err
	}
	m.End = "\n"
	if t.End != nil {
		if m.End = t.End.Value; m.End == "" {
			return r.at(*t.End, "end: a message ends with something, such as \"\\n\" or \"\\0\"")
		}
	}
	m.Base = 10
	if t.Base != nil {
		switch t.Base.Value {
		case "10":
		case "16":
			m.Base = 16
		default:
			return r.at(*t.Base, "base: %q is neither 10 nor 16", t.Base.Value)
		}
	}
	return nil
}

// leastBegins is how many bytes tell an exchange for certain where no port does.
const leastBegins = 4

// mostSize is the length of the longest binary message.
const mostSize = 4096

// binary reads a message of fixed length.
func (r *reader) binary(t *messageText, x *exchangeText, m *flows.ExchangeMessage) (err error) {
	if m.Size, err = r.number(*t.Size, "size", 1, mostSize); err != nil {
		return err
	}
	if t.Order != nil {
		switch t.Order.Value {
		case "little":
			m.Little = true
		case "big":
		default:
			return r.at(*t.Order, "order: %q is neither big nor little", t.Order.Value)
		}
	}
	if t.Begins != nil {
		if m.Begins, err = hex.DecodeString(strings.NewReplacer(" ", "", ":", "").Replace(t.Begins.Value)); err != nil || len(m.Begins) == 0 {
			return r.at(*t.Begins, "begins: %q are no bytes in hexadecimal digits, such as \"52 44 4d 41\"", t.Begins.Value)
		}
		if len(m.Begins) > m.Size {
			return r.at(*t.Begins, "begins: these are %d bytes, and the message has %d", len(m.Begins), m.Size)
		}
	}
	if len(x.Ports) == 0 && len(m.Begins) < leastBegins {
		return r.at(t.first(x.Name), "%q has no ports: then each message begins with at least %d bytes that tell it (\"begins\")", x.Name.Value, leastBegins)
	}
	named := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		place := t.Fields[name]
		f, _ := flows.LookupExchangeField(name)
		if f == nil {
			return r.at(place.Offset, "fields: %q is no field; there are %s", name, fields())
		}
		p := flows.ExchangePlace{Field: name, Size: f.Sizes[0]}
		if place.Size != nil {
			if p.Size, err = r.number(*place.Size, name+": size", 1, 16); err != nil {
				return err
			}
			if !slices.Contains(f.Sizes, p.Size) {
				return r.at(*place.Size, "%s: size: it has %s bytes", name, sizes(f.Sizes))
			}
		}
		if p.Offset, err = r.number(place.Offset, name+": offset", 0, m.Size-p.Size); err != nil {
			return err
		}
		named[name] = true
		m.Fields = append(m.Fields, p)
	}
	return r.qpn(*t.Size, named)
}

// qpn wants a message to name a queue pair, and nothing of a side whose queue pair it does not name.
func (r *reader) qpn(at config.Text, named map[string]bool) error {
	if !named["qpn"] && !named[flows.PeerField+"qpn"] {
		return r.at(at, "the message has no field qpn, nor %sqpn", flows.PeerField)
	}
	for name := range named {
		if rest, peer := strings.CutPrefix(name, flows.PeerField); peer && !named[flows.PeerField+"qpn"] {
			return r.at(at, "%s is told, and %sqpn is not", name, flows.PeerField)
		} else if !peer && !named["qpn"] {
			return r.at(at, "%s is told, and qpn is not", rest)
		}
	}
	return nil
}

func (r *reader) number(t config.Text, what string, least, most int) (int, error) {
	n, err := strconv.ParseInt(t.Value, 0, 32)
	if err != nil || int(n) < least || int(n) > most {
		return 0, r.at(t, "%s: %q is not from %d to %d", what, t.Value, least, most)
	}
	return int(n), nil
}

func fields() string {
	var names []string
	for i := range flows.ExchangeFields {
		names = append(names, flows.ExchangeFields[i].Name)
	}
	return strings.Join(names, ", ") + ", and the other side's with " + flows.PeerField + " before them"
}

func sizes(n []int) string {
	var all []string
	for _, v := range n {
		all = append(all, fmt.Sprint(v))
	}
	return strings.Join(all, " or ")
}
