package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/rocescope/rocescope/lab"
	"github.com/rocescope/rocescope/lab/upper"
)

// storage runs the table of what Linux carries over RDMA, between two guests.
func storage(image *lab.Image, args []string) error {
	flags := flag.NewFlagSet("lab upper", flag.ExitOnError)
	only := flags.String("only", "", "rows whose name matches")
	program := flags.String("rocescope", "./rocescope", "the program that captures")
	keep := flags.String("keep", "", "where captures go")
	out := flags.String("out", "", "the page to write")
	verbose := flags.Bool("v", false, "what Linux's programs print")
	_ = flags.Parse(args)
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	p, err := upper.Open(image, *program)
	if err != nil {
		return err
	}
	defer p.Close()
	var results []upper.Result
	failed := 0
	for i := range upper.Table {
		row := &upper.Table[i]
		if !wanted.MatchString(row.Name) {
			results = append(results, upper.Result{Row: *row})
			continue
		}
		r := p.Run(row, *keep)
		results = append(results, r)
		verdict := "ok    "
		if r.Failed != "" {
			verdict = "FAILED"
			failed++
		}
		fmt.Printf("%s %5.1f s  %s: %d bytes\n", verdict, r.Seconds, row.Name, r.Bytes)
		if r.Failed != "" {
			fmt.Println("    " + strings.ReplaceAll(r.Failed, "\n", "\n    "))
		}
		if *verbose {
			fmt.Println(r.Console[0] + r.Console[1])
		}
	}
	if *out != "" {
		if err := os.WriteFile(*out, []byte(upper.Page(p.Guests[0].Kernel, results)), 0o644); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d rows failed", failed)
	}
	return nil
}
