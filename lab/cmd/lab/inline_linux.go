package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/rocescope/rocescope/lab"
	"github.com/rocescope/rocescope/lab/inline"
)

// between runs the table of rocescope wire between two guests.
func between(image *lab.Image, args []string) error {
	flags := flag.NewFlagSet("lab wire", flag.ExitOnError)
	smoke := flags.Bool("smoke", false, "the few rows that are run before every change")
	only := flags.String("only", "", "rows whose name matches")
	program := flags.String("rocescope", "./rocescope", "the program that joins the guests")
	keep := flags.String("keep", "", "where captures go")
	out := flags.String("out", "", "the page to write")
	_ = flags.Parse(args)
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	p, err := inline.Open(image, *program)
	if err != nil {
		return err
	}
	defer p.Close()
	var results []inline.Result
	failed := 0
	for i := range inline.Table {
		row := &inline.Table[i]
		if *smoke && !row.Smoke || !wanted.MatchString(row.Name) {
			results = append(results, inline.Result{Row: *row})
			continue
		}
		r := p.Run(row, *keep)
		results = append(results, r)
		verdict := "ok    "
		if r.Failed != "" {
			verdict = "FAILED"
			failed++
		}
		fmt.Printf("%s %5.1f s  %s: %d packets, client %v, server %v; flows: %v, %v\n", verdict, r.Seconds, row.Name, r.Packets, r.Moved[0], r.Moved[1], r.Saw[0], r.Saw[1])
		if r.Failed != "" {
			fmt.Println("    " + strings.ReplaceAll(r.Failed, "\n", "\n    "))
		}
	}
	if *out != "" {
		if err := os.WriteFile(*out, []byte(inline.Page(p.Guests[0].Kernel, results)), 0o644); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d rows failed", failed)
	}
	return nil
}
