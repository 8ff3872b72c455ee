package metrics

import (
	"strconv"
	"strings"
)

// Page is a page of counters while it is written. Samples of a family follow its head.
type Page struct {
	text []byte
	name string
}

// Counter begins a family of counters, whose name ends with _total.
func (p *Page) Counter(name, help string) { p.family(name, "counter", help) }

// Gauge begins a family of values that go up and down.
func (p *Page) Gauge(name, help string) { p.family(name, "gauge", help) }

func (p *Page) family(name, kind, help string) {
	p.name = name
	p.text = append(p.text, "# HELP "+name+" "+strings.NewReplacer("\\", `\\`, "\n", `\n`).Replace(help)+"\n# TYPE "+name+" "+kind+"\n"...)
}

// Add adds a sample; labels are names and values in turn.
func (p *Page) Add(value float64, labels ...string) { p.sample("", value, labels) }

func (p *Page) sample(suffix string, value float64, labels []string) {
	p.text = append(p.text, p.name+suffix...)
	for i := 0; i+1 < len(labels); i += 2 {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		p.text = append(p.text, sep)
		p.text = append(p.text, labels[i]+`="`+escape.Replace(labels[i+1])+`"`...)
	}
	if len(labels) > 0 {
		p.text = append(p.text, '}')
	}
	p.text = append(p.text, ' ')
	p.text = strconv.AppendFloat(p.text, value, 'g', -1, 64)
	p.text = append(p.text, '\n')
}

var escape = strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`)

// Histogram writes a whole family: how many were at most each bound, then all, and their sum.
func (p *Page) Histogram(name, help string, bounds []float64, counts []uint64, sum float64) {
	p.family(name, "histogram", help)
	total := uint64(0)
	for i, n := range counts {
		total += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		p.sample("_bucket", float64(total), []string{"le", le})
	}
	p.sample("_sum", sum, nil)
	p.sample("_count", float64(total), nil)
}
