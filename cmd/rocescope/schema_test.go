package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/internal/schema"
)

// checkedMain is main for the scripts and tests that run the program: whatever JSON it prints must be what its schema says.
func checkedMain() {
	if at := slices.Index(os.Args, "--events"); at > 0 && at+1 < len(os.Args) {
		code := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		if code == exitOK || code == exitJudged || code == exitInterrupted {
			if err := checkEvents(os.Args[at+1]); err != nil && !errors.Is(err, os.ErrPermission) { // what it gave away it cannot read again
				fmt.Fprintf(os.Stderr, "the event log is not what its schema says: %v\n", err)
				code = 99
			}
		}
		os.Exit(int(code))
	}
	if !printsJSON(os.Args[1:]) {
		main()
		return
	}
	out := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	var copied bytes.Buffer
	var done sync.WaitGroup
	done.Go(func() {
		_, err := io.Copy(io.MultiWriter(out, &copied), r)
		r.Close() // a reader that went away must be noticed
		_ = err
	})
	code := run(context.Background(), os.Args[1:], os.Stdin, w, os.Stderr)
	w.Close()
	done.Wait()
	if code == exitOK || code == exitJudged {
		if err := checkJSON(os.Args[1:], copied.Bytes()); err != nil {
			fmt.Fprintf(os.Stderr, "the JSON is not what its schema says: %v\n", err)
			code = 99
		}
	}
	os.Exit(int(code))
}

// checkPrinted checks what a run within a test printed, and the event log that it wrote.
func checkPrinted(t *testing.T, args []string, stdout []byte) {
	t.Helper()
	if printsJSON(args) {
		if err := checkJSON(args, stdout); err != nil {
			t.Errorf("the JSON is not what its schema says: %v", err)
		}
	}
	if at := slices.Index(args, "--events"); at >= 0 && at+1 < len(args) {
		if err := checkEvents(args[at+1]); err != nil {
			t.Errorf("the event log is not what its schema says: %v", err)
		}
	}
}

// checkEvents checks each line of an event log.
func checkEvents(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		if err := schemas()["events"].Validate(line); err != nil {
			return fmt.Errorf("%w: %s", err, line)
		}
	}
	return nil
}

func printsJSON(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == "--json" || a == "json" || a == "jsonl" || a == "-Tjson" }) &&
		!slices.Contains(args, "--help")
}

// schemas are all of them, made once.
var schemas = sync.OnceValue(func() map[string]*schema.Schema {
	all := map[string]*schema.Schema{}
	for _, r := range schemaRows() {
		all[r.name] = r.of()
	}
	return all
})

// checkJSON checks a document, or each line of several.
func checkJSON(args []string, out []byte) error {
	d := json.NewDecoder(bytes.NewReader(out))
	for n := 1; ; n++ {
		var one json.RawMessage
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return nil // the command printed something else
		}
		name := schemaNameOf(args, one)
		s := schemas()[name]
		if s == nil {
			return fmt.Errorf("document %d of %q: there is no schema %q", n, args, name)
		}
		if err := s.Validate(one); err != nil {
			return fmt.Errorf("document %d of %q, schema %s: %w", n, args, name, err)
		}
	}
}

// schemaNameOf says which schema is meant: the document tells it, or the command.
func schemaNameOf(args []string, one []byte) string {
	var head struct{ Schema, Record string }
	_ = json.Unmarshal(one, &head)
	if head.Schema != "" {
		for _, r := range schemaRows() {
			if r.id == head.Schema && (head.Record == "" || r.name == "record-"+head.Record) {
				return r.name
			}
		}
		return head.Schema
	}
	array := bytes.HasPrefix(bytes.TrimSpace(one), []byte("["))
	has := func(word string) bool { return slices.Contains(args, word) }
	switch {
	case has("export"):
		return "tables"
	case has("--misbehave"):
		return "misbehaviours"
	case has("config"):
		return "config"
	case has("show") && array:
		return "show"
	case has("show"):
		return "show-lines"
	case has("--events"), has("events"):
		return "events"
	case has("findings") && !array:
		return "finding"
	case has("faults") && !array:
		return "fault"
	case has("faults") && bytes.Contains(one, []byte(`"params"`)) && bytes.Contains(one, []byte(`"kind"`)):
		return "actions"
	}
	for _, word := range args {
		if schemas()[word] != nil {
			return word
		}
	}
	return strings.Join(args, " ")
}

// TestSchemas checks what no script prints: that the schemas name what the program prints of each kind, and refuse the rest.
func TestSchemas(t *testing.T) {
	for _, args := range [][]string{
		{"version", "--json"},
		{"fields", "--json"},
		{"opcodes", "--json"},
		{"findings", "--json"},
		{"findings", "psn_gap", "--json"},
		{"faults", "--json"},
		{"export", "--columns", "--json"},
		{"serve", "--misbehave", "list", "--json"},
	} {
		if err := checkJSON(args, runOK(t, args...)); err != nil {
			t.Error(err)
		}
	}
	for _, sample := range samples.List() {
		file := sampleFile(t, sample.Name)
		for _, args := range [][]string{{"-T", "json"}, {"-T", "jsonl"}, {"-T", "json", "-e", "ip.src", "-e", "infiniband.bth.psn"}, {"-T", "jsonl", "-e", "ip.src", "-e", "flow.round"}} {
			args = append([]string{"show", file}, args...)
			if err := checkJSON(args, runOK(t, args...)); err != nil {
				t.Error(err)
			}
		}
	}
	for _, bad := range []string{`{"frame.number":"one"}`, `{"bth.psn":[1]}`, `[{"_source":{"layers":{"frame":{"frame.number":1}}}}]`} {
		if checkJSON([]string{"show"}, []byte(bad)) == nil {
			t.Errorf("%s passes", bad)
		}
	}
	for _, bad := range []string{`{"schema":"rocescope.analysis/1"}`, `{"schema":"rocescope.analysis/2"}`, `{"schema":"rocescope.message/1","more":1}`} {
		if checkJSON([]string{"analyze"}, []byte(bad)) == nil {
			t.Errorf("%s passes", bad)
		}
	}
}
