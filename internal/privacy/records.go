package privacy

import (
	"reflect"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// Sink masks what a tracker tells before s gets it.
func (m *Mask) Sink(s flows.Sink) flows.Sink {
	if tell := s.Message; tell != nil {
		s.Message = func(x *flows.Message) { tell(m.message(x)) }
	}
	if tell := s.IWARP; tell != nil {
		s.IWARP = func(x *flows.Message) { tell(m.message(x)) }
	}
	if tell := s.Finding; tell != nil {
		s.Finding = func(x *flows.Finding) { tell(masked(m, x)) }
	}
	if tell := s.Connection; tell != nil {
		s.Connection = func(x *flows.Connection) { tell(masked(m, x)) }
	}
	if tell := s.Step; tell != nil {
		s.Step = func(x *flows.Connection, end flows.Direction, step flows.StateStep) {
			tell(masked(m, x), end, *masked(m, &step))
		}
	}
	return s
}

// Snapshot is a masked copy; nil stays nil.
func (m *Mask) Snapshot(s *flows.Snapshot) *flows.Snapshot {
	if s == nil {
		return nil
	}
	return masked(m, s)
}

func (m *Mask) message(x *flows.Message) *flows.Message {
	c := *x
	c.RKey = m.Key(x.RKey)
	if x.Flags&dissect.WithInv != 0 {
		c.Imm = m.Key(x.Imm)
	}
	if x.IWARP != nil {
		c.IWARP = masked(m, x.IWARP)
	}
	if x.Upper != nil { // what the payload says goes, what became of it stays
		u := *x.Upper
		u.Summary = u.Kind.String()
		if u.Kind == dissect.UpperNone {
			u.Summary = "data of " + u.Protocol.String()
		}
		c.Upper = &u
	}
	return &c
}

// masked is a masked copy of a record, whatever lies in it: records get new fields, and none of them may be forgotten
// here.
func masked[T any](m *Mask, x *T) *T {
	c := new(T)
	m.copy(reflect.ValueOf(c).Elem(), reflect.ValueOf(x).Elem(), "")
	return c
}

// numbers are the fields of records that are keys, by name.
var numbers = map[string]bool{"RKey": true, "STag": true, "SinkSTag": true, "Invalidate": true}

// texts are the fields of records that are words, in which addresses may stand.
var texts = map[string]bool{"Why": true, "Where": true, "Detail": true, "Summary": true}

var (
	typeAddr     = reflect.TypeFor[dissect.Addr]()
	typeFinding  = reflect.TypeFor[flows.Finding]()
	typeMessage  = reflect.TypeFor[flows.Message]()
	typeHardware = reflect.TypeFor[[6]byte]()
)

// copy masks from into to; name is that of the field that they are.
func (m *Mask) copy(to, from reflect.Value, name string) {
	to.Set(from)
	switch from.Type() {
	case typeAddr:
		to.Set(reflect.ValueOf(m.Addr(from.Interface().(dissect.Addr))))
		return
	case typeMessage:
		x := from.Interface().(flows.Message)
		to.Set(reflect.ValueOf(*m.message(&x)))
		return
	case typeFinding:
		x := from.Interface().(flows.Finding)
		m.finding(&x)
		to.Set(reflect.ValueOf(x))
		return
	case typeHardware:
		v := uint64(0)
		for i := range 6 {
			v = v<<8 | from.Index(i).Uint()
		}
		v = m.MAC(v)
		for i := range 6 {
			to.Index(i).SetUint(v >> (40 - 8*i) & 0xFF)
		}
		return
	}
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			if f := from.Type().Field(i); f.IsExported() && m.concerns(f.Type, f.Name) {
				m.copy(to.Field(i), from.Field(i), f.Name)
			}
		}
	case reflect.Pointer:
		if !from.IsNil() && m.concerns(from.Type().Elem(), name) {
			to.Set(reflect.New(from.Type().Elem()))
			m.copy(to.Elem(), from.Elem(), name)
		}
	case reflect.Slice:
		if !from.IsNil() && m.concerns(from.Type().Elem(), name) {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				m.copy(to.Index(i), from.Index(i), name)
			}
		}
	case reflect.Array:
		for i := range from.Len() {
			m.copy(to.Index(i), from.Index(i), name)
		}
	case reflect.String:
		if texts[name] {
			to.SetString(m.Text(from.String()))
		}
	case reflect.Uint32:
		if numbers[name] {
			to.SetUint(uint64(m.Key(uint32(from.Uint()))))
		}
	}
}

// concerns says whether anything of a type, in a field of that name, can have a mask. Types that lie in each other have
// none.
func (m *Mask) concerns(t reflect.Type, name string) bool {
	switch t {
	case typeAddr, typeFinding, typeMessage, typeHardware:
		return true
	}
	switch t.Kind() {
	case reflect.String:
		return texts[name]
	case reflect.Uint32:
		return numbers[name]
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return m.concerns(t.Elem(), name)
	case reflect.Struct:
		known, ok := m.types[t]
		if ok {
			return known
		}
		m.types[t] = false
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && m.concerns(f.Type, f.Name) {
				m.types[t] = true
			}
		}
		return m.types[t]
	}
	return false
}

// finding masks the numbers that a finding's sentence is made of, and the words.
func (m *Mask) finding(f *flows.Finding) {
	id := f.ID.String()
	for _, i := range keyArgs[id] {
		f.Args[i] = uint64(m.Key(uint32(f.Args[i])))
	}
	for _, i := range macArgs[id] {
		f.Args[i] = m.MAC(f.Args[i])
	}
	f.Where, f.Detail = m.Text(f.Where), m.Text(f.Detail)
	if f.Summary != "" {
		f.Summary = f.Sentence()
	}
}

// keyArgs and macArgs are which numbers of findings are keys and hardware addresses.
var (
	keyArgs = map[string][]int{
		"nak_invalid_request": {2}, "nak_remote_access": {2}, "nak_remote_operational": {2}, "nak_invalid_rd": {2},
		"write_overlap": {2}, "read_differs": {3}, "iwarp_read_response": {0}, "iwarp_read_order": {0},
	}
	macArgs = map[string][]int{"pause_unclear": {0}, "pause_order": {1, 2}}
)
