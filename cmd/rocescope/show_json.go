package main

import (
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/packetline"
)

// jsonPrinter is -T json and -T jsonl with everything.
//
// -T json is an array with one element per packet. As in tshark's, the layers
// lie below _source.layers, a layer is an object of fields by their full names,
// the InfiniBand headers lie within "infiniband", and values are strings as -T
// fields prints them. Of ours are "flow" and "problems" beside the layers.
//
// -T jsonl is an object per line: the same fields without layers, numbers as
// numbers. A field that a packet has twice (vlan.id) is there once, the first; those of the headers
// around a tunnel have "outer." in front.
type jsonPrinter struct {
	array   bool
	some    bool // an element was printed
	layers  []dissect.Layer
	value   []byte
	outcome flows.Outcome
}

func newJSONPrinter(array bool) *jsonPrinter { return &jsonPrinter{array: array} }

// layerKeys are the names of the objects that hold a layer's fields: what the
// names of the fields have in common, except for the layers named here. Those
// below infiniband are nested in it.
var layerKeys = sync.OnceValue(func() map[dissect.Layer]string {
	keys := map[dissect.Layer]string{
		dissect.LayerVLAN2:          "vlan_inner",
		dissect.LayerMPLS2:          "mpls_inner",
		dissect.LayerFPDU:           "iwarp_mpa.fpdu",
		dissect.LayerDDPTagged:      "iwarp_ddp.tagged",
		dissect.LayerDDPUntagged:    "iwarp_ddp.untagged",
		dissect.LayerMPARequest:     "iwarp_mpa.req",
		dissect.LayerMPAReply:       "iwarp_mpa.rep",
		dissect.LayerVCRC:           "infiniband.variant.crc",
		dissect.LayerDCBX:           "lldp.dcbx.ieee",
		dissect.LayerCEE:            "lldp.dcbx.cee",
		dissect.LayerSMPData:        "infiniband.smp.attribute",
		dissect.LayerSARecord:       "infiniband.sa.record",
		dissect.LayerPerfData:       "infiniband.perf.attribute",
		dissect.LayerDevMgtData:     "infiniband.devmgt.attribute",
		dissect.LayerCongestionData: "infiniband.cc.attribute",
		dissect.LayerERSPAN3:        "erspan",
		dissect.LayerMAD:            "infiniband.mad",
		dissect.LayerCMREQ:          "infiniband.cm.req",
		dissect.LayerCMREP:          "infiniband.cm.rep",
		dissect.LayerCMDREQ:         "infiniband.cm.dreq",
		dissect.LayerIPCM:           "infiniband.cm.ip_cm",
		dissect.LayerRDETH:          "infiniband.rdeth",
		dissect.LayerXRCETH:         "infiniband.xrceth",
		dissect.LayerNull:           "null",
		dissect.LayerAtomicETH:      "infiniband.atomiceth",
		dissect.LayerFrame:          "frame",
		dissect.LayerPayload:        "infiniband.payload",
		dissect.LayerICRC:           "infiniband.invariant.crc",
		dissect.LayerAtomicAckETH:   "infiniband.atomicacketh",
	}
	for l := range dissect.NumLayers {
		if fields := dissect.LayerFields(l); keys[l] == "" && len(fields) > 0 {
			keys[l] = outerPrefix(l) + commonName(fields)
		}
	}
	return keys
})

// outerPrefix tells the headers around a tunnel from those inside.
func outerPrefix(l dissect.Layer) string {
	switch {
	case l >= dissect.LayerOuterEthernet && l <= dissect.LayerOuterUDP:
		return "outer."
	case l >= dissect.LayerOuterEthernet2 && l <= dissect.LayerOuterUDP2:
		return "outer2."
	}
	return ""
}

// commonName is the longest row of whole words that all names begin with.
func commonName(fields []*dissect.Field) string {
	words := strings.Split(fields[0].Name, ".")
	if len(fields) > 1 {
		words = words[:len(words)-1]
	}
	for _, f := range fields {
		other := strings.Split(f.Name, ".")
		n := 0
		for n < len(words) && n < len(other) && words[n] == other[n] {
			n++
		}
		words = words[:n]
	}
	return strings.Join(words, ".")
}

func (j *jsonPrinter) begin(dst []byte) []byte {
	if j.array {
		return append(dst, '[')
	}
	return dst
}

func (j *jsonPrinter) end(dst []byte) []byte {
	if j.array {
		return append(dst, "\n]\n"...)
	}
	return dst
}

func (j *jsonPrinter) packet(dst []byte, b *engine.Batch, i int) []byte {
	if !j.array {
		return j.flat(dst, b, i)
	}
	if j.some {
		dst = append(dst, ',')
	}
	j.some = true
	p, frame := &b.Packets[i], b.Data[i]
	w := jsonWriter{dst: append(dst, '\n')}
	w.open("")
	w.open("_source")
	w.open("layers")
	j.layers = packetline.AppendLayers(j.layers[:0], p)
	nested := false
	for _, l := range j.layers {
		key := layerKeys()[l]
		if inside := strings.HasPrefix(key, "infiniband") && (l != dissect.LayerPayload || p.Has(dissect.LayerBTH)); inside != nested {
			if nested = inside; inside {
				w.open("infiniband")
			} else {
				w.close()
			}
		}
		if l == dissect.LayerPayload && !nested {
			key = "data"
		}
		w.open(key)
		for _, f := range dissect.LayerFields(l) {
			if j.value, _ = f.AppendText(j.value[:0], p, frame); len(j.value) > 0 {
				w.text(f.Name, j.value)
			}
		}
		w.close()
	}
	if nested {
		w.close()
	}
	w.close()
	w.close()
	j.facts(&w, b, i, true)
	j.problems(&w, p)
	w.close()
	return w.dst
}

// flat is a packet as one line.
func (j *jsonPrinter) flat(dst []byte, b *engine.Batch, i int) []byte {
	p, frame := &b.Packets[i], b.Data[i]
	w := jsonWriter{dst: dst}
	w.open("")
	j.layers = packetline.AppendLayers(j.layers[:0], p)
	var last string
	for _, l := range j.layers {
		if l == dissect.LayerVLAN2 || l == dissect.LayerMPLS2 {
			continue
		}
		outer := outerPrefix(l)
		for _, f := range dissect.LayerFields(l) {
			var ok bool
			if j.value, ok = f.AppendText(j.value[:0], p, frame); ok && len(j.value) > 0 && f.Name != last {
				w.value(outer+f.Name, j.value, isNumber(f.Kind, f.Width))
				last = f.Name
			}
		}
	}
	j.facts(&w, b, i, false)
	j.problems(&w, p)
	w.close()
	return append(w.dst, '\n')
}

// facts is what tracking says: an object "flow", or fields like others.
func (j *jsonPrinter) facts(w *jsonWriter, b *engine.Batch, i int, object bool) {
	opened := false
	for k := range flows.Fields() {
		f := &flows.Fields()[k]
		v, ok := flowFact(f, b, i, &j.outcome)
		if !ok {
			continue
		}
		if object && !opened {
			opened = true
			w.open("flow")
		}
		if j.value = appendFlow(j.value[:0], f, v); object {
			w.text(f.Name, j.value)
		} else {
			w.value(f.Name, j.value, isNumber(f.Kind, 0))
		}
	}
	if opened {
		w.close()
	}
}

func (j *jsonPrinter) problems(w *jsonWriter, p *dissect.Packet) {
	if len(p.Problems()) == 0 {
		return
	}
	w.key("problems")
	w.dst = append(w.dst, '[')
	for i, q := range p.Problems() {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		w.dst = append(w.dst, `{"text":`...)
		w.dst = appendJSONString(w.dst, []byte(q.Code.String()))
		w.dst = append(w.dst, `,"offset":`...)
		w.dst = strconv.AppendUint(w.dst, uint64(q.Offset), 10)
		w.dst = append(w.dst, '}')
	}
	w.dst = append(w.dst, ']')
}

// isNumber reports whether a field's printed value is a JSON number that every
// reader can hold.
func isNumber(k dissect.Kind, width uint16) bool {
	switch k {
	case dissect.Dec, dissect.Bool:
		return width <= 53
	case dissect.Interval:
		return true
	}
	return false
}

// jsonColumnsPrinter is -T json and -T jsonl with -e: below _source.layers, or
// right in the line, the columns that a packet has. In the array a column is a
// list of its occurrences, as in tshark.
type jsonColumnsPrinter struct {
	columns []column
	style   *fieldStyle
	array   bool
	some    bool
	value   []byte
}

func (j *jsonColumnsPrinter) begin(dst []byte) []byte {
	if j.array {
		return append(dst, '[')
	}
	return dst
}

func (j *jsonColumnsPrinter) end(dst []byte) []byte {
	if j.array {
		return append(dst, "\n]\n"...)
	}
	return dst
}

func (j *jsonColumnsPrinter) packet(dst []byte, b *engine.Batch, i int) []byte {
	if !j.array {
		w := jsonWriter{dst: dst}
		w.open("")
		for k := range j.columns {
			c := &j.columns[k]
			var ok bool
			if j.value, ok = c.append(j.value[:0], b, i, 0); ok {
				w.value(c.name, j.value, c.isNumber())
			}
		}
		w.close()
		return append(w.dst, '\n')
	}
	if j.some {
		dst = append(dst, ',')
	}
	j.some = true
	w := jsonWriter{dst: append(dst, '\n')}
	w.open("")
	w.open("_source")
	w.open("layers")
	for k := range j.columns {
		c := &j.columns[k]
		for n := 0; ; n++ {
			var ok bool
			if j.value, ok = c.append(j.value[:0], b, i, n); !ok || n > 0 && j.style.occurrence == 'f' {
				if n > 0 {
					w.dst = append(w.dst, ']')
				}
				break
			}
			if n == 0 {
				w.key(c.name)
				w.dst = append(w.dst, '[')
			} else {
				w.dst = append(w.dst, ',')
			}
			w.dst = appendJSONString(w.dst, j.value)
		}
	}
	w.close()
	w.close()
	w.close()
	return w.dst
}

// jsonWriter writes objects within objects.
type jsonWriter struct {
	dst  []byte
	some uint64 // bit n: the object at depth n has a member
	deep int
}

// open begins an object; the outermost has no name.
func (w *jsonWriter) open(name string) {
	if w.deep > 0 {
		w.key(name)
	}
	w.deep++
	w.some &^= 1 << w.deep
	w.dst = append(w.dst, '{')
}

func (w *jsonWriter) close() {
	w.deep--
	w.dst = append(w.dst, '}')
}

func (w *jsonWriter) key(name string) {
	if w.some>>w.deep&1 != 0 {
		w.dst = append(w.dst, ',')
	}
	w.some |= 1 << w.deep
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, name...)
	w.dst = append(w.dst, '"', ':')
}

func (w *jsonWriter) text(name string, value []byte) {
	w.key(name)
	w.dst = appendJSONString(w.dst, value)
}

func (w *jsonWriter) value(name string, value []byte, number bool) {
	if !number {
		w.text(name, value)
		return
	}
	w.key(name)
	w.dst = append(w.dst, value...)
}

// appendJSONString appends a value in quotes.
func appendJSONString(dst, value []byte) []byte {
	dst = append(dst, '"')
	for len(value) > 0 {
		r, n := utf8.DecodeRune(value)
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			dst = append(dst, `\u00`...)
			dst = append(dst, "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			dst = utf8.AppendRune(dst, r) // what is no UTF-8 becomes U+FFFD
		}
		value = value[n:]
	}
	return append(dst, '"')
}
