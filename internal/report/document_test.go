package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/testkit"
)

func encode(t *testing.T, d *Document) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := d.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDocumentGolden(t *testing.T) {
	testkit.Golden(t, "troubled.json", encode(t, troubledDocument()))
	testkit.Golden(t, "empty.json", encode(t, NewDocument(&flows.Snapshot{}, Capture{})))
}

func TestDocumentReadsBack(t *testing.T) {
	d := troubledDocument()
	text := encode(t, d)
	var back Document
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, &back); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
	c := troubledCapture()
	c.Series = true
	d = NewDocument(troubled(), c)
	d.Counters = &Counters{Host: []string{"10.77.0.1"}, List: []Counter{{Name: "sent_pkts", Verdict: counterMissing}}}
	var series Document
	strict = json.NewDecoder(bytes.NewReader(encode(t, d)))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&series); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, &series); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
	if again := encode(t, troubledDocument()); !bytes.Equal(text, again) {
		t.Error("the same document was written in two ways")
	}
}

// fixedNames are what programs rely on. A line may be added, never changed: that would be rocescope.analysis/2.
const fixedNames = `
schema
capture: files packets bytes first last link_types truncated malformed
protocols: rocev2 rocev1 infiniband iwarp cm socket_exchange pfc cnp other
opcodes: RC_RDMA_WRITE_FIRST RC_ACKNOWLEDGE
icrc: valid invalid unchecked
connections[]: id transport a b established_by pairing_evidence state_history a_to_b b_to_a tap directions
connections[].a: address qpn state first_psn path_mtu
connections[].b: address qpn state first_psn path_mtu
connections[].a_to_b: packets bytes payload_bytes messages retransmitted_packets retransmissions duplicates out_of_order
connections[].a_to_b: lost_before_tap lost_behind_tap capture_lost ghost_acks reordered network_duplicates ambiguous
connections[].a_to_b: acks naks rnr_naks ecn_ce cnps goodput_bps latency_ns
connections[].b_to_a.retransmissions: nak rnr timeout spurious
connections[].b_to_a.naks: psn_sequence_error invalid_request remote_access_error remote_operational_error invalid_rd_request
connections[].a_to_b.latency_ns: count min p50 p99 max coalesced
findings[]: id severity connection stream frame time summary explanation rule count
`

func TestDocumentHasTheFixedNames(t *testing.T) {
	var whole any
	if err := json.Unmarshal(encode(t, troubledDocument()), &whole); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(fixedNames), "\n") {
		path, names, found := strings.Cut(line, ":")
		if !found {
			path, names = "", line
		}
		at := []any{whole}
		for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' }) {
			var next []any
			name, isList := strings.CutSuffix(step, "[]")
			for _, v := range at {
				child := v.(map[string]any)[name]
				if isList {
					next = append(next, child.([]any)...)
				} else {
					next = append(next, child)
				}
			}
			at = next
		}
		for _, v := range at {
			for _, name := range strings.Fields(names) {
				if _, ok := v.(map[string]any)[name]; !ok {
					t.Errorf("%s has no %q", path, name)
				}
			}
		}
	}
}

func TestNumbersAreSane(t *testing.T) {
	s := troubled()
	for i, bps := range []float64{math.NaN(), math.Inf(1), -5} {
		s.Connections[i].Streams[flows.AToB].Goodput = bps
	}
	s.Connections[0].Streams[flows.AToB].Latency = flows.Latency{Count: 1, Min: -3, P50: -3, P99: -3, Max: -3}
	s.Connections[0].Streams[flows.BToA].RNRWait = -time.Second
	var whole any
	if err := json.Unmarshal(encode(t, NewDocument(s, Capture{})), &whole); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, child := range v {
				walk(path+"."+k, child)
			}
		case []any:
			for i, child := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), child)
			}
		case float64:
			if v < 0 {
				t.Errorf("%s is %v", path, v)
			}
		}
	}
	walk("", whole)
}

func TestDocumentMeaning(t *testing.T) {
	d := NewDocument(troubled(), troubledCapture())
	for i, want := range []string{"socket", "cm", "unpaired", "unpaired", "inferred", "inferred"} {
		if got := d.Connections[i].EstablishedBy; got != want {
			t.Errorf("connection %d is established by %s, want %s", i+1, got, want)
		}
	}
	atomics := d.Connections[1].AToB.Messages
	if diff := cmp.Diff(MessageCounts{Count: 5, Bytes: 40, Completed: 4, Failed: 1}, atomics["atomic"]); diff != "" {
		t.Errorf("atomic is not the sum of its kinds: %s", diff)
	}
	if len(atomics) != 3 {
		t.Errorf("operations that did not occur: %v", atomics)
	}
	if d.Connections[2].A.QPN != nil || d.Connections[3].B.QPN != nil || len(d.Connections[3].Candidates) != 2 {
		t.Error("what is not known must be null, and candidates named")
	}
	if p := d.Connections[4].A.Peers; p == nil || *p != 2 {
		t.Error("the UD queue pair has two peers")
	}
	if !strings.Contains(d.Connections[4].Evidence, "DETH") {
		t.Errorf("evidence %q", d.Connections[4].Evidence)
	}
	if d.Capture.First == nil || *d.Connections[0].A.Negotiated.AckTimeoutNS != int64(dissect.AckTimeout(14)) {
		t.Error("times")
	}
}

// Every name of the two schemas is explained in the documentation.
func TestDocumentationExplainsEveryName(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testkit.ModuleRoot(t), "docs", "analysis.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(of.Elem())
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			for i := range of.NumField() {
				name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
				if !bytes.Contains(page, []byte("`"+name+"`")) {
					t.Errorf("docs/analysis.md does not mention `%s` of %v", name, of)
				}
				walk(of.Field(i).Type)
			}
		}
	}
	walk(reflect.TypeFor[Document]())
	walk(reflect.TypeFor[Message]())
}

func TestMoment(t *testing.T) {
	text, _ := Moment(start + 5).MarshalText()
	if string(text) != "2025-10-09T08:53:20.000000005Z" {
		t.Errorf("%s", text)
	}
}

// TestCreditsOfSeries: none left is a value, null is that no answer told.
func TestCreditsOfSeries(t *testing.T) {
	for _, c := range []struct {
		of   flows.PointStream
		want string
	}{
		{flows.PointStream{Credits: 6, CreditsKnown: true}, `"credits":6,`},
		{flows.PointStream{CreditsKnown: true}, `"credits":0,`},
		{flows.PointStream{}, `"credits":null,`},
	} {
		if got, err := json.Marshal(newPointStream(&c.of, 1)); err != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%+v: %s, %v, want %s", c.of, got, err, c.want)
		}
	}
}
