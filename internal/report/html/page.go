package html

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
	"sync"
)

//go:embed assets/page.css
var styleSheet string

//go:embed assets/page.js
var script string

//go:embed assets/base.tmpl
var baseTemplate string

//go:embed assets/analysis.tmpl
var analysisTemplate string

//go:embed assets/suite.tmpl
var suiteTemplate string

// templates are parsed when a page is asked for: a program that writes none does not pay for them.
var templates = sync.OnceValue(func() *template.Template {
	t := template.New("page").Funcs(template.FuncMap{
		"style":  func() template.CSS { return template.CSS(styleSheet) },
		"script": func() template.JS { return template.JS(script) },
		"signs":  func() template.HTML { return signs },
	})
	for _, text := range [...]string{baseTemplate, analysisTemplate, suiteTemplate} {
		template.Must(t.Parse(text))
	}
	return t
})

// Generator is in the head of every page, so that a program knows its own pages again.
const Generator = "rocescope report"

// head is what every page has.
type head struct {
	Title     string
	Generator string
	Version   string
	Parts     []fact // of the page: name and anchor
	Verdict   string
	Grave     string // ok, note, warning, error: how the verdict looks
	About     string // below the verdict
	Tiles     []tile
	Facts     []fact   // how it was made
	Limits    []string // what the page cannot show
	Hints     []string
}

// tile is a number that matters.
type tile struct{ Name, Value, About, Class string }

// fact is a name and what it is.
type fact struct{ Name, Value string }

// text is what a template makes of its data.
func text(name string, data any) (template.HTML, error) {
	var b strings.Builder
	err := execute(&b, name, data)
	return template.HTML(b.String()), err
}

func execute(w io.Writer, name string, data any) error {
	return templates().ExecuteTemplate(w, name, data)
}

// signs are the marks of plots, by name, and the head of arrows. They differ in shape, not only in colour.
const signs template.HTML = `<svg class="defs" aria-hidden="true" width="0" height="0"><defs>` +
	`<path id="sign-nak" d="M-4.5 -4.5L4.5 4.5M4.5 -4.5L-4.5 4.5"/>` +
	`<path id="sign-rnr" d="M0 -5L5 4H-5z"/>` +
	`<path id="sign-gap" d="M-5 0H5M0 -7V7M-3 -7H3M-3 7H3"/>` +
	`<path id="sign-late" d="M0 -5L5 0L0 5L-5 0z"/>` +
	`<path id="sign-ce" d="M-3.5 -3.5H3.5V3.5H-3.5z"/>` +
	`<path id="sign-damaged" d="M0 -5.5V5.5M-5 -3L5 3M5 -3L-5 3"/>` +
	`<path id="sign-again" d="M0 0V-9"/>` +
	`<path id="sign-cnp" d="M-4 -14H4L0 -7z"/>` +
	`<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker>` +
	`</defs></svg>`
