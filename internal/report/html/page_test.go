package html

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// contrast returns the texts of a page that stand out from what is behind them by less than WCAG AA wants (1.4.3: 4.5, large text 3),
// and signs and lines that carry meaning by less than 3 (1.4.11).
const contrast = `
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const rgba = (c) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); const d = canvas.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
const light = ([r, g, b]) => { const f = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); }; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
const ratio = (a, b) => { const x = light(a), y = light(b); return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
const behind = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
const bad = {};
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let n; (n = walk.nextNode());) {
  const e = n.parentElement;
  if (!n.data.trim() || e.closest("script,style,title,defs,[hidden],.unseen,.skip") || !e.checkVisibility()) continue;
  const s = getComputedStyle(e), svg = e.namespaceURI.endsWith("svg"), size = parseFloat(s.fontSize);
  const large = size >= 24 || size >= 18.66 && s.fontWeight >= 700;
  const r = ratio(rgba(svg ? s.fill : s.color), behind(svg ? e.closest("svg").parentElement : e));
  if (r < (large ? 3 : 4.5)) bad[e.tagName + "." + e.getAttribute("class") + " " + r.toFixed(2)] = n.data.trim().slice(0, 40);
}
for (const e of document.querySelectorAll("path.layer, .rung line, g.signs, .swatch, .state.been rect")) {
  if (!e.checkVisibility()) continue;
  const s = getComputedStyle(e), back = behind(e.closest("svg") ? e.closest("svg").parentElement : e.parentElement);
  const r = ratio(rgba(e.classList.contains("swatch") ? s.backgroundColor : s.stroke), back);
  if (r < 3 && !e.classList.contains("t-idle")) bad[e.tagName + "." + e.getAttribute("class") + " " + r.toFixed(2)] = "line";
}
return Object.entries(bad).map((x) => x.join(": "));`

// TestInBrowser opens pages in one Chromium, and does with them what people do.
func TestInBrowser(t *testing.T) {
	b := startBrowser(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T, *browser)
	}{{"pages", pages}, {"interactions", interactions}, {"table", table}, {"without script", withoutScript}} {
		t.Run(part.name, func(t *testing.T) { part.run(t, b) })
		b.t = t
	}
}

func pages(t *testing.T, b *browser) {
	b.t = t
	for _, page := range []struct {
		name string
		file string
		has  []string // selectors
	}{
		{"healthy", write(t, sample(t, "cm_rping_ipv6")), []string{".verdict.ok", "#connection-1 svg.chart", ".memory", ".state.now"}},
		{"loss", write(t, sample(t, "lost_write_recovered")), []string{".verdict.warning", ".finding.warning .ladder", "g.signs.nak use", "path.layer.resent", "g.signs.gap use"}},
		{"conformance", write(t, run()), []string{".verdict.error", ".finding.error .ladder", "tr[data-severity=failed]"}},
		{"million", write(t, million(t)), []string{".verdict.ok", "#connection-table tbody tr:nth-child(64)", "path.layer[data-n]"}},
	} {
		t.Run(page.name, func(t *testing.T) {
			b.t = t
			info, err := os.Stat(page.file)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > 5_000_000 {
				t.Errorf("the page has %d bytes, over 5 MB", info.Size())
			}
			p := b.open(page.file)
			for _, selector := range page.has {
				if !eval[bool](p, fmt.Sprintf("return !!document.querySelector(%q)", selector)) {
					t.Errorf("there is no %s", selector)
				}
			}
			if n := eval[int](p, `const ids = Array.from(document.querySelectorAll("[id]"), (e) => e.id); return ids.length - new Set(ids).size`); n > 0 {
				t.Errorf("%d names are given twice", n)
			}
			if dead := eval[[]string](p, `return Array.from(document.querySelectorAll("a[href^='#']"), (a) => a.getAttribute("href")).filter((h) => !document.getElementById(h.slice(1)))`); len(dead) > 0 {
				t.Errorf("links lead nowhere: %v", dead)
			}
			if wide := eval[float64](p, "return document.documentElement.scrollWidth - innerWidth"); wide > 0 {
				t.Errorf("the page is %v pixels wider than the window", wide)
			}
			for _, scheme := range []string{"light", "dark"} {
				p.scheme(scheme)
				p.picture(page.name+"-"+scheme, page.name != "million")
				if page.name == "million" {
					continue // the same colours as the others', on a hundred times the text
				}
				eval[any](p, `for (const d of document.querySelectorAll("details")) d.open = true`)
				for _, complaint := range eval[[]string](p, contrast) {
					t.Errorf("%s: too little contrast: %s", scheme, complaint)
				}
			}
			p.quiet()
		})
	}
}

// reading is what the pointer is told.
const reading = `const tip = document.getElementById("tip"); return tip.hidden ? "" : tip.textContent`

func interactions(t *testing.T, b *browser) {
	b.t = t
	p := b.open(write(t, sample(t, "lost_write_recovered")))

	t.Run("zoom by dragging, and back", func(t *testing.T) {
		b.t = t
		ticks := `return Array.from(document.querySelectorAll("#psn-1a .tick.mid"), (e) => e.textContent).join()`
		others := `return Array.from(document.querySelectorAll("#goodput-1 .tick.mid"), (e) => e.textContent).join()`
		was, other := eval[string](p, ticks), eval[string](p, others)
		r := p.box("#psn-1a")
		p.mouse("mousePressed", r.X+r.W*.2, r.Y+r.H*.5, "left", 1)
		p.mouse("mouseMoved", r.X+r.W*.35, r.Y+r.H*.5, "left", 0)
		p.mouse("mouseReleased", r.X+r.W*.35, r.Y+r.H*.5, "left", 1)
		if now := eval[string](p, ticks); now == was || now == "" {
			t.Errorf("dragging did not zoom: %q", now)
		}
		if eval[string](p, others) == other {
			t.Error("the other charts of the connection show another time")
		}
		p.click("#connection-1 [data-zoom=reset]")
		if now := eval[string](p, ticks); now != was {
			t.Errorf("the whole time has ticks %q, first %q", now, was)
		}
	})

	t.Run("hover values", func(t *testing.T) {
		b.t = t
		at := eval[box](p, `const s = document.querySelector("#psn-1a"); s.scrollIntoView({block: "center"}); const r = s.querySelector("g.signs.nak use").getBoundingClientRect(); return {X: r.x + r.width / 2, Y: r.y + r.height / 2}`)
		p.mouse("mouseMoved", at.X, at.Y, "none", 0)
		got := eval[string](p, reading)
		if !strings.Contains(got, "NAK: 0x264c84, frame 88") {
			t.Errorf("at the first NAK, the pointer is told %q", got)
		}
		p.mouse("mouseMoved", 5, 5, "none", 0)
		if got := eval[string](p, reading); got != "" {
			t.Errorf("outside of plots, the pointer is told %q", got)
		}
	})

	t.Run("keyboard", func(t *testing.T) {
		b.t = t
		eval[any](p, `document.querySelector("#psn-1a").focus()`)
		p.key("ArrowRight", "")
		first := eval[string](p, reading)
		p.key("ArrowRight", "")
		if second := eval[string](p, reading); !strings.Contains(first, "frame 22") || !strings.Contains(second, "frame 23") {
			t.Errorf("arrows read %q, %q; want frames 22 and 23", first, second)
		}
		p.key("Escape", "")
		if got := eval[string](p, reading); got != "" {
			t.Errorf("after Escape: %q", got)
		}
		before := eval[string](p, `return document.querySelector("#psn-1a .data").getAttribute("transform")`)
		p.key("+", "+")
		if eval[string](p, `return document.querySelector("#psn-1a .data").getAttribute("transform")`) == before {
			t.Error("+ does not zoom")
		}
		p.key("0", "0")
	})

	t.Run("jump from a finding to its plot", func(t *testing.T) {
		b.t = t
		p.click("a.jump")
		if got := eval[string](p, `return document.activeElement.id + " " + location.hash`); got != "psn-1a #connection-1" {
			t.Errorf("the focus is at %s", got)
		}
		if got := eval[string](p, reading); got == "" {
			t.Error("nothing is said of the place")
		}
		if on := eval[bool](p, `const r = document.querySelector("#psn-1a").getBoundingClientRect(); return r.top < innerHeight && r.bottom > 0`); !on {
			t.Error("the plot is not in view")
		}
	})

	t.Run("severities", func(t *testing.T) {
		b.t = t
		count := `return document.querySelectorAll(".finding:not([hidden])").length`
		p.click("button.chip.note")
		if n := eval[int](p, count); n != 1 {
			t.Errorf("%d findings without notes, want 1", n)
		}
		p.click("button.chip.note")
		if n := eval[int](p, count); n != 4 {
			t.Errorf("%d findings, want 4", n)
		}
	})

	t.Run("theme", func(t *testing.T) {
		b.t = t
		p.scheme("light")
		color := `return getComputedStyle(document.body).backgroundColor`
		light := eval[string](p, color)
		p.click("#theme")
		dark := eval[string](p, color)
		p.click("#theme")
		if light == dark || eval[string](p, color) != light {
			t.Errorf("light %s, dark %s, then %s", light, dark, eval[string](p, color))
		}
	})
	b.t = t
	p.quiet()
}

func table(t *testing.T, b *browser) {
	b.t = t
	p := b.open(write(t, sample(t, "rule_breaker")))
	ids := `return Array.from(document.querySelectorAll("#connection-table tbody tr:not([hidden]) th"), (e) => e.textContent).join()`
	if got := eval[string](p, ids); got != "1,3,4" {
		t.Fatalf("connections %s", got)
	}
	p.click("#connection-table th:nth-child(1) button")
	if got := eval[string](p, ids); got != "1,3,4" {
		t.Errorf("sorted by number: %s", got)
	}
	p.click("#connection-table th:nth-child(1) button")
	if got := eval[string](p, ids); got != "4,3,1" {
		t.Errorf("sorted by number, downwards: %s", got)
	}
	if got := eval[string](p, `return document.querySelector("#connection-table th").getAttribute("aria-sort")`); got != "descending" {
		t.Errorf("aria-sort is %s", got)
	}
	qpn := eval[string](p, `return document.querySelector("#connection-table tbody tr td").textContent.split(" ")[1]`)
	eval[any](p, `document.getElementById("filter").focus()`)
	for _, c := range qpn {
		p.key(string(c), string(c))
	}
	if got := eval[string](p, ids); got == "" || got == "4,3,1" {
		t.Errorf("filtered by %s: %s", qpn, got)
	}
	if got := eval[string](p, `return document.getElementById("filter-count").textContent`); !strings.HasSuffix(got, "of 3") {
		t.Errorf("the count says %q", got)
	}
	p.quiet()
}

// withoutScript looks at what is there before a script runs, and on paper.
func withoutScript(t *testing.T, b *browser) {
	b.t = t
	file := write(t, sample(t, "lost_write_recovered"))
	p := b.open(file, func(p *tab) { p.do("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil) })
	p.do("Emulation.setScriptExecutionDisabled", map[string]any{"value": false}, nil)
	if eval[bool](p, `return document.documentElement.classList.contains("js")`) {
		t.Fatal("the script ran")
	}
	if n := eval[int](p, `return Array.from(document.querySelectorAll(".scripted")).filter((e) => e.checkVisibility()).length`); n > 0 {
		t.Errorf("%d controls show that do nothing", n)
	}
	for _, selector := range []string{"#psn-1a path.layer", ".ladder", "#connection-table", ".finding .summary", ".states"} {
		if !eval[bool](p, fmt.Sprintf("const e = document.querySelector(%q); return !!e && e.getBoundingClientRect().width > 50", selector)) {
			t.Errorf("%s does not show", selector)
		}
	}
	p.do("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
	if eval[bool](p, `return document.querySelector(".masthead").checkVisibility()`) {
		t.Error("the bar is printed")
	}
	if !eval[bool](p, `return Array.from(document.querySelectorAll(".finding details:not([open]) p")).every((e) => e.getBoundingClientRect().height > 0)`) {
		t.Error("what is folded away is not printed")
	}
	var pdf struct{ Data string }
	p.do("Page.printToPDF", map[string]any{"printBackground": true}, &pdf)
	if len(pdf.Data) < 20_000 {
		t.Errorf("the PDF has %d characters", len(pdf.Data))
	}
	p.quiet()
}
