package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
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
	smoke := flags.Bool("smoke", false, "the few cases that are run before every change")
	seed := flags.Uint64("seed", 0, "number that everything random comes from")
	skip := flags.String("skip", "", "IDs or rows of cases that are left out")
	captures := flags.String("captures", "", "where a capture of each case goes")
	result := flags.String("json", "", "the result as JSON (rocescope.test/1)")
	by := flags.String("by", "verbs", "who speaks for the device in the guest: verbs (pyverbs), or perftest (its programs)")
	verbose := flags.Bool("v", false, "all that is known of cases that deviate")
	out := flags.String("out", "", "the page to write")
	_ = flags.Parse(args)
	if *by != "verbs" && *by != "perftest" {
		return fmt.Errorf("-by %s: it is verbs or perftest", *by)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
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
		if err := os.WriteFile(*out, []byte(conformance.Page(g.Kernel, res)), 0o644); err != nil {
			return err
		}
	}
	return conformance.Compare(res)
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
