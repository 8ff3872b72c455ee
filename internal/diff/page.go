package diff

import (
	_ "embed"
	"html/template"
	"io"
	"sync"
	"time"

	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/report/html"
)

//go:embed page.html
var pageText string

// page is parsed when it is first asked for: most runs never do.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("diff").Funcs(template.FuncMap{
		"count": report.Count,
		"ns":    func(v int64) string { return report.Duration(time.Duration(v)) },
		"deref": func(v *int64) int64 {
			if v == nil {
				return 0
			}
			return *v
		},
		"seconds": precise,
		"hex":     hex24,
		"way":     func(s StreamDoc) string { return s.way() },
		"more":    func(p PacketDoc) string { return p.more() },
		"tell":    func(m MessageDiff) string { return m.text() },
	}).Parse(pageText))
})

// maxRows is how many rows a table of the page has.
const maxRows = 2000

// WriteHTML writes the document as one page that needs nothing else: no other
// file, no network. Without scripts, its charts stand still.
func (d *Document) WriteHTML(w io.Writer, title string) error {
	short := *d
	cut := 0
	if n := len(short.Listed); n > maxRows {
		short.Listed, cut = short.Listed[:maxRows], cut+n-maxRows
	}
	if n := len(short.Streams); n > maxRows {
		short.Streams, cut = short.Streams[:maxRows], cut+n-maxRows
	}
	if n := len(short.Differ); n > maxRows {
		short.Differ, cut = short.Differ[:maxRows], cut+n-maxRows
	}
	shared, err := html.Shared()
	if err != nil {
		return err
	}
	var charts []template.HTML
	if d.result != nil {
		for _, c := range d.result.charts() {
			drawn, err := c.Draw()
			if err != nil {
				return err
			}
			charts = append(charts, drawn)
		}
	}
	return page().Execute(w, struct {
		*Document
		html.Parts
		Title  string
		All    *Document // streams of packets are looked up here
		Cut    int
		Charts []template.HTML
	}{&short, shared, title, d, cut, charts})
}
