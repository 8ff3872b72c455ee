package conformance

import (
	"bytes"
	"context"
	_ "embed" // the text of a program
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/inject/suite"
	"github.com/rocescope/rocescope/lab"
)

// cmTarget is the program in the guest that answers by CM.
//
//go:embed cm_target.py
var cmTarget string

const cmPort = "7471"

// Use is a command of rocescope's with Linux as its target, and what must come of it.
type Use struct {
	Name string
	// Args: {it}: the guest's address; {cm}: its port and memory by CM; {hand}, {other}: the numbers of two queue pairs that are made
	// for it in the guest; {file:NAME}: a bundled capture.
	Args string
	Code int
	Says string // a regular expression
}

// Uses are the commands that are tried besides the suite itself.
var Uses = []Use{
	{Name: "bring-up, by CM", Args: "bringup {it} {cm}", Says: `loss +.*`},
	{Name: "bring-up, by CM, path MTU 4096", Args: "bringup {it} {cm} -m 4096", Says: `path MTU 4096`},
	{Name: "bring-up, by hand", Args: "bringup {it} --hand {hand}", Says: `loss +.*`},
	{Name: "bring-up, nobody listens", Args: "bringup {it} -p 7472", Code: 3, Says: `FAILED +connect`},
	{Name: "replay of a recovered loss, by CM", Args: "replay {file:lost_write_recovered} --target {it} --cm {cm}", Says: `0  that are not what the capture has`},
	{Name: "replay of lost READ responses, by hand", Args: "replay {file:read_response_lost} --target {it} --hand {hand}", Says: `0  that are not what the capture has`},
	{Name: "replay of atomics, by hand", Args: "replay {file:atomics} --target {it} --hand {hand}", Says: `0  that are not what the capture has`},
	{
		Name: "test, by hand", Args: "test {it} --hand {hand} --hand {other} --patience 2s --case GOOD-WRITE,BTH-01,ICRC-01,PSN-01,PSN-07,D6,D7",
		Says: `7 cases in .*: 7 passed`,
	},
}

// UseResult is what came of one.
type UseResult struct {
	Use
	Failed string
	Took   time.Duration
	Said   string
}

// TryUses runs those whose names match, in the lab, with the rocescope that is there.
func TryUses(ctx context.Context, image *lab.Image, rocescope string, only *regexp.Regexp, tell func(*UseResult)) (all []UseResult, g *lab.Guest, err error) {
	if rocescope, err = exec.LookPath(rocescope); err != nil {
		return nil, nil, fmt.Errorf("%w: make build makes it", err)
	}
	if g, err = lab.Boot(image); err != nil {
		return nil, nil, err
	}
	hook, err := dial(g)
	if err != nil {
		return nil, g, err
	}
	defer hook.Close()
	memory, err := listen(g)
	if err != nil {
		return nil, g, err
	}
	dir, err := os.MkdirTemp(image.Scratch(), "uses-")
	if err != nil {
		return nil, g, err
	}
	defer os.RemoveAll(dir)
	for _, u := range Uses {
		if !only.MatchString(u.Name) {
			continue
		}
		r := UseResult{Use: u}
		began := time.Now()
		args, err := u.expand(hook, memory, dir)
		if err == nil {
			err = r.run(ctx, rocescope, args)
		}
		if err != nil {
			r.Failed = err.Error()
		}
		r.Took = time.Since(began)
		tell(&r)
		all = append(all, r)
	}
	return all, g, nil
}

var memoryTold = regexp.MustCompile(`(?m)^(rkey=\S+)$`)

// listen starts the target for CM, and returns its memory.
func listen(g *lab.Guest) (string, error) {
	p, err := g.Start("python3", "-u", "-c", cmTarget, lab.Peer.IP4.Addr().String(), cmPort)
	if err != nil {
		return "", err
	}
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if m := memoryTold.FindStringSubmatch(p.Output()); m != nil {
			return m[1], nil
		}
		select {
		case <-p.Done():
			return "", fmt.Errorf("the target for CM in the guest ended:\n%s", p.Output())
		default:
		}
	}
	return "", fmt.Errorf("the target for CM in the guest was not ready:\n%s", p.Output())
}

// Our numbers by hand: the first queue pairs of a device that was just opened, and PSN 0.
const firstQPN = 0x11

var inArgs = regexp.MustCompile(`\{(\w+)(?::(\w+))?\}`)

// expand fills in a command's arguments, and makes what they name.
func (u *Use) expand(hook suite.Device, memory, dir string) ([]string, error) {
	var failed error
	text := inArgs.ReplaceAllStringFunc(u.Args, func(name string) string {
		m := inArgs.FindStringSubmatch(name)
		switch m[1] {
		case "it":
			return lab.Peer.IP4.Addr().String()
		case "cm":
			return "-p " + cmPort + " --memory " + memory
		case "hand", "other":
			text, err := byHand(hook, m[1])
			failed = errors.Join(failed, err)
			return text
		case "file":
			file := filepath.Join(dir, m[2]+".pcap")
			data, err := samples.Open(m[2])
			failed = errors.Join(failed, err)
			if err == nil {
				failed = errors.Join(failed, os.WriteFile(file, data, 0o644))
			}
			return file
		}
		failed = errors.Join(failed, fmt.Errorf("%s: there is no %s", u.Name, name))
		return name
	})
	return append(strings.Fields(text), "-i", lab.Interface), failed
}

// byHand makes a queue pair in the guest for one of ours, and returns its numbers.
func byHand(hook suite.Device, name string) (string, error) {
	psn := uint32(0x1000)
	a, err := hook.Do(&suite.Command{
		Do: "create", QP: name, Transport: "RC", MTU: 1024, PSN: &psn, Access: []string{"write", "read", "atomic"}, Receives: 8, ReceiveSize: 2048,
		Depth: 16, DeviceDepth: 16, CQ: 256,
	})
	if err != nil {
		return "", err
	}
	ours := suite.Numbers{Address: lab.Host.IP4.Addr().String(), QPN: firstQPN}
	if name == "other" {
		ours.QPN++
	}
	n := a.Numbers
	_, err = hook.Do(&suite.Command{Do: "connect", QP: name, Remote: &ours, Timeout: 17, Retries: 7, RNRRetries: 7, RNRTimer: 1})
	return fmt.Sprintf("qpn=%#x,psn=%#x,rkey=%#x,va=%#x,length=%d", n.QPN, n.PSN, n.RKey, n.VA, n.Length), err
}

// run runs a command, and holds how it ended against the table.
func (r *UseResult) run(ctx context.Context, rocescope string, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, rocescope, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	r.Said = out.String()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	return r.judge(cmd.ProcessState.ExitCode())
}

func (r *UseResult) judge(code int) error {
	switch {
	case code != r.Code:
		return fmt.Errorf("it ended with %d, not with %d:\n%s", code, r.Code, r.Said)
	case !regexp.MustCompile(r.Says).MatchString(r.Said):
		return fmt.Errorf("it does not say %q:\n%s", r.Says, r.Said)
	}
	return nil
}

// UsePage is docs/conformance-commands.md.
func UsePage(kernel string, all []UseResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Commands with Linux as their target

<!-- Generated by: lab conformance -commands -out. Do not edit. -->

[bringup](bringup.md), [replay](replay.md) and [test](suites.md) by hand, with Linux %s (soft-RoCE) in the [laboratory](lab.md) as the target.
By CM a program of a few lines accepts whoever asks (lab/conformance/cm_target.py); by hand the hook for verbs makes queue pairs. IT stands for the
guest's address, NUMBERS for what such a queue pair is, MEMORY for the memory of the other. Each command has to end with the exit code of the table.

| what | command | exit code | result |
|---|---|---:|---|
`, kernel)
	for i := range all {
		r := &all[i]
		outcome := "as required"
		if r.Failed != "" {
			first, _, _ := strings.Cut(r.Failed, "\n")
			outcome = "**failed**: " + first
		}
		args := inArgs.ReplaceAllStringFunc(r.Args, func(name string) string {
			m := inArgs.FindStringSubmatch(name)
			return map[string]string{"it": "IT", "cm": "-p " + cmPort + " --memory MEMORY", "hand": "NUMBERS", "other": "NUMBERS", "file": "captures/samples/" + m[2] + ".pcap"}[m[1]]
		})
		row(&b, r.Name, "`rocescope "+args+"`", fmt.Sprint(r.Code), outcome)
	}
	return b.String()
}
