package testkit

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Tshark is the oracle: another implementation, asked by its command line.
type Tshark struct {
	path   string
	config string // an empty folder, so that nobody's preferences matter
}

// FindTshark skips the test where tshark is not installed, and under the race detector, which slows our side down and
// learns nothing from the other.
func FindTshark(t testing.TB) *Tshark {
	t.Helper()
	SkipUnderRace(t)
	path, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed")
	}
	return &Tshark{path: path, config: t.TempDir()}
}

// TsharkQuery is one `tshark -T fields`.
type TsharkQuery struct {
	File   string
	Fields []string // -e
	Filter string   // -Y, if not empty
	Args   []string // anything else, such as "-o", "ip.defragment:FALSE"
}

// Fields is a row for each packet and a column for each field, "" where the packet has no such field; of a field that
// occurs several times it is the first. An error of tshark ends the test.
func (ts *Tshark) Fields(t testing.TB, file string, fields ...string) [][]string {
	t.Helper()
	rows, err := ts.Query(TsharkQuery{File: file, Fields: fields})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Query is Fields with everything that can be asked. With an error it still returns the rows that tshark printed:
// it does print the whole packets of a file that is cut off.
func (ts *Tshark) Query(q TsharkQuery) ([][]string, error) {
	args := []string{"-n", "-r", q.File, "-T", "fields", "-E", "separator=/t", "-E", "quote=n", "-E", "occurrence=f"}
	if q.Filter != "" {
		args = append(args, "-Y", q.Filter)
	}
	for _, field := range q.Fields {
		args = append(args, "-e", field)
	}
	out, err := ts.Run(append(args, q.Args...)...)
	rows, malformed := splitRows(out, len(q.Fields))
	if err == nil {
		err = malformed
	}
	return rows, err
}

// splitRows cuts tshark's output into rows. A row of empty columns is an empty line (for one field) and counts.
func splitRows(out string, columns int) ([][]string, error) {
	if out == "" {
		return nil, nil
	}
	var rows [][]string
	for i, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		row := strings.Split(line, "\t")
		if len(row) != columns {
			return rows, fmt.Errorf("tshark: line %d has %d columns, want %d: %q", i+1, len(row), columns, line)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Run is any tshark command line; it returns standard output. Its remark that it runs as root is no error.
func (ts *Tshark) Run(args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(ts.path, args...)
	cmd.Env = append(cmd.Environ(), "WIRESHARK_CONFIG_DIR="+ts.config, "LC_ALL=C.UTF-8", "TZ=UTC")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("tshark %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

var (
	knownOnce   sync.Once
	knownFields map[string]string
	knownErr    error
)

// KnownFields is every field name that this tshark has, with its type (FT_UINT24, …), as `tshark -G fields` lists them.
func (ts *Tshark) KnownFields(t testing.TB) map[string]string {
	t.Helper()
	knownOnce.Do(func() {
		var out string
		if out, knownErr = ts.Run("-G", "fields"); knownErr != nil {
			return
		}
		knownFields = map[string]string{}
		for _, line := range strings.Split(out, "\n") {
			if column := strings.Split(line, "\t"); len(column) >= 4 && column[0] == "F" {
				knownFields[column[2]] = column[3]
			}
		}
	})
	if knownErr != nil {
		t.Fatal(knownErr)
	}
	return knownFields
}
