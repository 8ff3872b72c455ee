package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"

	"github.com/rocescope/rocescope/inject/suite"
	"github.com/rocescope/rocescope/lab"
	"github.com/rocescope/rocescope/lab/conformance"
)

// conform runs the conformance suite against the guest's device.
func conform(image *lab.Image, args []string) error {
	flags := flag.NewFlagSet("lab conformance", flag.ExitOnError)
	tier := flags.String("tier", "quick", "quick, full or soak")
	only := flags.String("only", "", "IDs or rows of cases, with commas")
	cases := flags.String("case", "", "exactly the cases of these IDs")
	commands := flags.Bool("commands", false, "commands of rocescope's with the guest as their target, instead of the suite (-only: a regexp)")
	program := flags.String("rocescope", "./rocescope", "the program for -commands")
	smoke := flags.Bool("smoke", false, "the few cases that are run before every change")
	seed := flags.Uint64("seed", 0, "number that everything random comes from")
	skip := flags.String("skip", "", "IDs or rows of cases that are left out")
	captures := flags.String("captures", "", "where a capture of each case goes")
	result := flags.String("json", "", "the result as JSON (rocescope.test/1)")
	with := flags.String("with", "", "results as JSON of earlier runs, with commas, whose cases the page has where this run has none")
	by := flags.String("by", "verbs", "who speaks for the device in the guest: verbs (pyverbs), or perftest (its programs)")
	verbose := flags.Bool("v", false, "all that is known of cases that deviate")
	out := flags.String("out", "", "the page to write")
	_ = flags.Parse(args)
	if *by != "verbs" && *by != "perftest" {
		return fmt.Errorf("-by %s: it is verbs or perftest", *by)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *commands {
		return use(ctx, image, *program, *only, *out, *verbose)
	}
	o := suite.Options{Tier: *tier, Captures: *captures, Cases: list(*cases), Seed: *seed, Only: list(*only), Skip: list(*skip)}
	if *smoke {
		o.Cases = conformance.Smoke
	}
	o.Progress = func(done, total int, c *suite.CaseResult) {
		if c.Status == "" {
			return
		}
		fmt.Printf("%3d/%d %-10s %-24s %s\n", done, total, c.Status, c.ID, c.Seen)
		if *verbose && c.Status != suite.Passed && c.Status != suite.Skipped {
			fmt.Println(c.Text())
		}
	}
	res, g, err := conformance.Run(ctx, image, *by == "perftest", o)
	if g != nil {
		defer g.Close()
	}
	if res != nil && *result != "" {
		text, _ := json.MarshalIndent(res, "", " ")
		if err := os.WriteFile(*result, text, 0o644); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	fmt.Println(res.Summary())
	if *out != "" {
		if err := page(*out, list(*with), g.Kernel, res); err != nil {
			return err
		}
	}
	return conformance.Compare(res)
}

// page writes the page, with what earlier runs have besides.
func page(file string, with []string, kernel string, res *suite.Result) error {
	for _, name := range with {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var earlier suite.Result
		if err := json.Unmarshal(text, &earlier); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		conformance.Add(res, &earlier)
	}
	text, err := conformance.Page(kernel, res, 1+len(with))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// use runs commands with the guest as their target.
func use(ctx context.Context, image *lab.Image, program, only, out string, verbose bool) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	failed := 0
	all, g, err := conformance.TryUses(ctx, image, program, wanted, func(r *conformance.UseResult) {
		verdict := "ok    "
		if r.Failed != "" {
			verdict = "FAILED"
			failed++
		}
		fmt.Printf("%s %5.1f s  %s\n", verdict, r.Took.Seconds(), r.Name)
		if r.Failed != "" {
			fmt.Println("    " + strings.ReplaceAll(r.Failed, "\n", "\n    "))
		} else if verbose {
			fmt.Println(r.Said)
		}
	})
	if g != nil {
		defer g.Close()
	}
	if err != nil {
		return err
	}
	if out != "" {
		if err := os.WriteFile(out, []byte(conformance.UsePage(g.Kernel, all)), 0o644); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d commands failed", failed)
	}
	return nil
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
