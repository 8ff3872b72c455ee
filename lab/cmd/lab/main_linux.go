// Lab builds the laboratory's guest, runs commands in it, and runs the interoperability table:
//
//	lab build
//	lab run 'ibv_devinfo' 'rdma link'
//	lab conformance [-tier full] [-by perftest] [-only IDs] [-captures folder] [-out docs/conformance-linux.md]
//	lab conformance -commands [-only regexp] [-out docs/conformance-commands.md]
//	lab wire [-smoke] [-only regexp] [-keep folder] [-out docs/wire-linux.md]
//	lab upper [-only regexp] [-keep folder] [-out docs/upper-linux.md]
//	lab test [-smoke] [-only regexp] [-keep folder] [-out docs/interop.md]
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rocescope/rocescope/lab"
	"github.com/rocescope/rocescope/lab/interop"
)

func main() {
	if len(os.Args) < 2 || !map[string]bool{"build": true, "run": true, "test": true, "conformance": true, "wire": true, "upper": true}[os.Args[1]] {
		fmt.Fprintln(os.Stderr, "usage: lab build | lab run COMMAND… | lab conformance [-tier quick] [-by perftest] [-commands] [-only IDs] [-out page] | lab wire [-smoke] [-only regexp] [-out page] | lab upper [-only regexp] [-keep folder] [-out page] | lab test [-smoke] [-only regexp] [-keep folder] [-out page]")
		os.Exit(2)
	}
	if err := do(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func do(what string, args []string) error {
	kind := lab.Plain
	if what == "upper" {
		kind = lab.Storage
	}
	build := func() (*lab.Image, error) { return lab.Build(kind, tell) }
	if what == "build" {
		image, err := build()
		if err == nil {
			tell("the guest is ready: %s, kernel %s", image.Folder, image.Kernel)
		}
		return err
	}
	image, err := lab.Enter(build)
	switch {
	case err != nil:
		return err
	case what == "run":
		return run(image, args)
	case what == "wire":
		return between(image, args)
	case what == "upper":
		return storage(image, args)
	case what == "conformance":
		return conform(image, args)
	default:
		return test(image, args)
	}
}

func tell(format string, args ...any) { fmt.Fprintf(os.Stderr, "lab: "+format+"\n", args...) }

func run(image *lab.Image, commands []string) error {
	guest, err := lab.Boot(image)
	if err != nil {
		return err
	}
	defer guest.Close()
	tell("kernel %s is up after %.0f s", guest.Kernel, guest.Boot.Seconds())
	for _, c := range commands {
		out, err := guest.Run(10*time.Minute, "sh", "-c", c)
		fmt.Print(out)
		if err != nil {
			return err
		}
	}
	return nil
}

func test(image *lab.Image, args []string) error {
	flags := flag.NewFlagSet("lab test", flag.ExitOnError)
	smoke := flags.Bool("smoke", false, "the few rows that are run before every change")
	only := flags.String("only", "", "rows whose description matches")
	program := flags.String("rocescope", "./rocescope", "the program that takes part")
	keep := flags.String("keep", "", "where captures of failed rows go")
	out := flags.String("out", "", "the page to write")
	verbose := flags.Bool("v", false, "what Linux's programs print")
	_ = flags.Parse(args)
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	l, err := interop.Open(image, *program)
	if err != nil {
		return err
	}
	defer l.Close()
	tell("kernel %s is up after %.0f s", l.Guest.Kernel, l.Guest.Boot.Seconds())
	var results []interop.Result
	failed, ran, left := 0, 0, 0
	for i := range interop.Table {
		row := &interop.Table[i]
		if row.Lacks != "" || *smoke && !row.Smoke || !wanted.MatchString(row.String()) {
			results = append(results, interop.Result{Row: *row})
			left++
			continue
		}
		r := l.Run(row, *keep)
		results = append(results, r)
		ran++
		verdict := "ok    "
		if r.Failed != "" {
			verdict = "FAILED"
			failed++
		}
		fmt.Printf("%s %5.1f s  %s\n", verdict, r.Seconds, row)
		if r.Failed != "" {
			fmt.Println("    " + strings.ReplaceAll(r.Failed, "\n", "\n    "))
		}
		if *verbose {
			fmt.Println(r.Console, r.Moved)
		}
	}
	if wanted.MatchString(interop.ClockName) {
		r := l.Clock()
		ran++
		if r.Failed == "" {
			fmt.Printf("ok     %5.1f s  %s\n", r.Seconds, interop.ClockName)
		} else {
			failed++
			fmt.Printf("FAILED %5.1f s  %s\n    %s\n", r.Seconds, interop.ClockName, strings.ReplaceAll(r.Failed, "\n", "\n    "))
		}
	}
	if *out != "" {
		before, _ := os.ReadFile(*out) // of another run, if there was one
		if err := os.WriteFile(*out, []byte(interop.Page(l.Guest.Kernel, image, results, string(before))), 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%d rows ran, %d failed, %d of the table were not run\n", ran, failed, left)
	if failed > 0 {
		return fmt.Errorf("%d rows failed", failed)
	}
	if ran == 0 {
		return errors.New("no row was run")
	}
	return nil
}
