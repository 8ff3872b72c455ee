package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// outputs are the ways in which command lines name files that they write. {} is a file that is there and holds something else.
var outputs = []struct {
	command string // and the option, or the place of the argument: what TestOutputsAreKnown looks for
	line    string
	kept    string // the name of the file that is there; default precious
}{
	{"analyze --html", "analyze {sample} --html {}", ""},
	{"analyze --events", "analyze {sample} --events {}", ""},
	{"annotate OUT", "annotate {sample} {}", "precious.pcapng"},
	{"capture --write", "capture -i lo -w {}", ""},
	{"capture --events", "capture -i lo --events {} -c 1 -f none", ""},
	{"config init", "config init {}", ""},
	{"convert OUT", "convert {csv} {}", "precious.pcapng"},
	{"demo --save", "demo --save {folder}", "atomics.pcap"},
	{"diff --html", "diff {sample} {sample} --html {}", ""},
	{"export --to csv", "export {sample} --to csv {folder}", "connections.csv"},
	{"export --to jsonl", "export {sample} --to jsonl {}", ""},
	{"extcap --dir", "extcap --install --dir {folder}", "rocescope"},
	{"inject --write", "inject write --src 10.9.0.1 --dst 10.9.0.2 -w {}", "precious.pcapng"},
	{"serve --events", "serve -i lo --events {}", ""},
	{"test --html", "test --only BTH-01 --html {}", ""},
	{"test --junit", "test --only BTH-01 --junit {}", ""},
	{"test --captures", "test --only BTH-01 --captures {folder}", "BTH-01.pcapng"},
	{"wire --write", "wire lo lo -w {}", ""},
}

// TestNothingIsOverwritten: a file that is there and is no earlier output of the same kind stays as it is, and the command says so and fails.
func TestNothingIsOverwritten(t *testing.T) {
	csv := filepath.Join(t.TempDir(), "frames.csv")
	if err := os.WriteFile(csv, []byte("time,tdata,tkeep,tlast\n0,00112233445566778899aabb08004500,ffff,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range outputs {
		t.Run(o.command, func(t *testing.T) {
			if strings.Contains(o.line, " lo ") && os.Geteuid() != 0 {
				t.Skip("opens an interface, for which it must be root")
			}
			folder := t.TempDir()
			name := "precious"
			if o.kept != "" {
				name = o.kept
			}
			file := filepath.Join(folder, name)
			const content = "what somebody wants to keep\n"
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			line := strings.NewReplacer("{sample}", "../../captures/samples/atomics.pcap", "{csv}", csv, "{folder}", folder, "{}", file).Replace(o.line)
			out, errs, code := runLine(t, strings.Fields(line)...)
			if said := string(out) + string(errs); code == exitOK || !strings.Contains(said, "there already") || !strings.Contains(said, name) {
				t.Errorf("rocescope %s: exit code %d\n%s", line, code, said)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != content {
				t.Errorf("rocescope %s: the file is %q now, %v", line, got, err)
			}
		})
	}
}

// inputs are the options of all commands that name what is read.
const inputs = " read exchange counters faults config file "

// ownNames are options of folders in which files have names that nobody else gives.
var ownNames = map[string]string{
	"capture --spill": "a file of a spill's name that is none is refused (internal/sink)",
	"export --spill":  "a file of a spill's name that is none is refused (internal/sink)",
	"schema --write":  "writes the schemas by their names, as the manual is written",
}

// TestOutputsAreKnown holds outputs to all options that take a file or a folder.
func TestOutputsAreKnown(t *testing.T) {
	known := func(name string) bool {
		for _, o := range outputs {
			if o.command == name {
				return true
			}
		}
		return ownNames[name] != ""
	}
	var walk func(c *cobra.Command, path string)
	walk = func(c *cobra.Command, path string) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			kind, _ := pflag.UnquoteUsage(f)
			name := strings.TrimSpace(fmt.Sprintf("%s --%s", path, f.Name))
			if strings.Contains("file files directory folder dir path", kind) && kind != "" && !strings.Contains(inputs, " "+f.Name+" ") && !known(name) {
				t.Errorf("%s: %s", name, f.Usage)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub, strings.TrimSpace(path+" "+sub.Name()))
		}
	}
	walk(newRoot(&app{}, ""), "")
}
