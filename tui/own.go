package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"text/template"

	"github.com/rocescope/rocescope/tui/cells"
)

// UserAction is a command of the user's own: a key runs it on what the cursor is on.
type UserAction struct {
	Key     string `yaml:"key" json:",omitempty"`
	Command string `yaml:"command"`
	Help    string `yaml:"help" json:",omitempty"`
	Output  string `yaml:"output" json:",omitempty"`
	Ask     bool   `yaml:"ask" json:",omitempty"`
}

// What becomes of a command's output.
const (
	outputWindow   = "window"   // shown when it ends
	outputTerminal = "terminal" // the command has the terminal until it ends
	outputNone     = "none"     // its last line, if it failed
)

var outputs = []string{outputWindow, outputTerminal, outputNone}

// ownNames are the names that commands may have in double braces.
var ownNames = []struct{ name, help string }{
	{"File", "the capture's file"},
	{"Filter", "the display filter in force"},
	{"Packet", "the number of the packet under the cursor"},
	{"Connection", "the connection's number"},
	{"QPN", "the queue pair that the packet goes to, else the connection's first"},
	{"PeerQPN", "the other queue pair"},
	{"Address", "the address of the queue pair QPN"},
	{"PeerAddress", "the address of the other one"},
	{"Config", "the config file"},
}

func actionSchema() map[string]any {
	text := func(help string) map[string]any { return map[string]any{"type": "string", "description": help} }
	var names []string
	for _, n := range ownNames {
		names = append(names, "{{."+n.name+"}} "+n.help)
	}
	out := text("what becomes of the output: shown in a window when it ends, the terminal's while it runs, or nothing but failures")
	out["enum"] = outputs
	return map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"command"},
		"properties": map[string]any{
			"key": text("the key that runs it"), "help": text("what ? says of it"), "output": out,
			"command": text("a command line of the shell, with " + strings.Join(names, ", ") + "; all are quoted for the shell"),
			"ask":     map[string]any{"type": "boolean", "description": "ask before it runs, and show the command"},
		},
	}
}

// check finds what an action cannot be.
func (a *UserAction) check(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, " \t@"):
		return wrong("this is no name for an action: it is one word", "actions", name)
	case strings.TrimSpace(a.Command) == "":
		return wrong("there is no command", "actions", name)
	case a.Output != "" && !slices.Contains(outputs, a.Output):
		return wrong(fmt.Sprintf("%q is none of %s", a.Output, strings.Join(outputs, ", ")), "actions", name, "output")
	}
	all := map[string]string{}
	for _, n := range ownNames {
		all[n.name] = "x"
	}
	if _, err := a.line(all); err != nil {
		return wrong(err.Error(), "actions", name, "command")
	}
	return nil
}

// line is the command line with values for its names. All values are quoted for the shell: they come from captures.
func (a *UserAction) line(values map[string]string) (string, error) {
	t, err := template.New("").Option("missingkey=error").Parse(a.Command)
	if err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), "template: :"))
	}
	quoted := map[string]string{}
	for k, v := range values {
		quoted[k] = shellQuote(v)
	}
	var b strings.Builder
	if err := t.Execute(&b, quoted); err != nil {
		for _, n := range ownNames {
			if strings.Contains(err.Error(), fmt.Sprintf("no entry for key %q", n.name)) {
				return "", fmt.Errorf("there is nothing here for {{.%s}}, %s", n.name, n.help)
			}
		}
		var names []string
		for _, n := range ownNames {
			names = append(names, n.name)
		}
		return "", fmt.Errorf("names in double braces are %s, each behind a point", strings.Join(names, ", "))
	}
	return b.String(), nil
}

// ownValues are what commands may ask for here.
func (s *screen) ownValues() map[string]string {
	v := map[string]string{"Filter": s.filter.text}
	if s.o.ConfigPath != "" {
		v["Config"] = s.o.ConfigPath
	}
	if s.ses == nil {
		return v
	}
	if s.ses.in.File != "" {
		v["File"] = s.ses.in.File
	}
	at := s.here()
	if at.frame > 0 {
		v["Packet"] = fmt.Sprint(at.frame)
	}
	k := s.connection(at.conn)
	if k == nil {
		return v
	}
	v["Connection"] = fmt.Sprint(k.ID)
	a, b := &k.A, &k.B
	if r, _ := s.packetHere(); r != nil && r.Packet.DestQP == b.QPN && r.Packet.Dst == b.Addr {
		a, b = b, a
	}
	if a.Known {
		v["QPN"], v["Address"] = qpn(a.QPN), a.Addr.String()
	}
	if b.Known {
		v["PeerQPN"], v["PeerAddress"] = qpn(b.QPN), b.Addr.String()
	}
	return v
}

// mostOutput is how much of a command's output is kept: its end.
const mostOutput = 256 << 10

// lastBytes keeps the end of what is written to it.
type lastBytes struct{ bytes.Buffer }

func (l *lastBytes) Write(p []byte) (int, error) {
	l.Buffer.Write(p)
	if n := l.Len() - mostOutput; n > mostOutput {
		l.Next(n)
	}
	return len(p), nil
}

// runOwn runs a command of the user's own.
func (s *screen) runOwn(name string, a UserAction) {
	line, err := a.line(s.ownValues())
	if err != nil {
		s.fail(fmt.Errorf("%s: %w", name, err))
		return
	}
	run := func(s *screen) { s.runLine(name, line, a.Output) }
	if a.Ask {
		s.prompt = newConfirm("Run "+line+" ?", run)
		return
	}
	run(s)
}

func (s *screen) runLine(name, line, output string) {
	if output == outputTerminal {
		s.lent = append(s.lent, lent{exec.Command("sh", "-c", line), func(s *screen, err error) {
			if err != nil {
				s.fail(fmt.Errorf("%s: %w", name, s.notRun(err)))
			}
		}})
		return
	}
	s.say("%s runs …", name)
	s.start("run "+name, func() func(*screen) {
		var out lastBytes
		cmd := exec.CommandContext(s.context(), "sh", "-c", line)
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		text := strings.TrimRight(out.String(), "\n")
		return func(s *screen) {
			switch {
			case err != nil && (output == outputNone || text == ""):
				s.fail(fmt.Errorf("%s: %w: %s", name, s.notRun(err), text[strings.LastIndexByte(text, '\n')+1:]))
			case output == outputNone || text == "":
				s.say("%s has ended.", name)
			case s.prompt != nil: // somebody is typing
				s.say("%s has ended: %s", name, text[strings.LastIndexByte(text, '\n')+1:])
			default:
				s.flash = ""
				s.prompt = newPager(name, text, err)
			}
		}
	})
}

// notRun says of a program that the kernel refused to start why that is: who captures from an interface has given up to start any.
func (s *screen) notRun(err error) error {
	if s.ses != nil && s.ses.Live() && errors.Is(err, fs.ErrPermission) {
		return errors.New("no program can be started while an interface is captured: write the packets to a file, and open that")
	}
	return err
}

// context ends with the capture that is shown.
func (s *screen) context() context.Context {
	if s.ses != nil {
		return s.ses.ctx
	}
	return context.Background()
}

// pager shows text.
type pager struct {
	scroller
	title string
	lines []string
	bad   bool
}

func newPager(title, text string, err error) *pager {
	p := &pager{title: title, lines: strings.Split(text, "\n"), bad: err != nil}
	if err != nil {
		p.title += ": " + err.Error()
	}
	p.n = len(p.lines)
	return p
}

func (p *pager) key(s *screen, k keyPress) {
	switch a := s.keys.byKey[k.name]; {
	case k.name == "enter" || a == doBack || a == doQuit:
		s.prompt = nil
	case a == doUp:
		p.wheel(-1)
	case a == doDown:
		p.wheel(+1)
	case a == doPageUp:
		p.wheel(-p.height)
	case a == doPageDown || k.name == "space":
		p.wheel(p.height)
	case a == doTop:
		p.wheel(-p.n)
	case a == doBottom:
		p.wheel(p.n)
	}
}

func (p *pager) mouse(s *screen, m mouseEvent) {
	if m.click {
		s.prompt = nil
	}
	p.wheel(m.wheel)
}

func (p *pager) draw(s *screen, c *cells.Canvas) {
	in, _ := window(c, min(120, c.W), min(p.n+2, c.H-2), p.title+" (esc closes)")
	p.height = in.H
	p.wheel(0)
	for y := range min(p.height, p.n-p.top) {
		line := strings.Map(func(r rune) rune { // escape sequences would be another's
			if r == '\t' {
				return ' '
			}
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, p.lines[p.top+y])
		in.Fit(1, y, in.W-2, cells.Plain, s.masked(line))
	}
	p.bar(in, in.W-1, 0)
}
