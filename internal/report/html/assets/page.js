"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const all = (query, from) => Array.from((from || document).querySelectorAll(query));

  // Colours: the system's, until somebody chooses.
  const theme = document.getElementById("theme");
  const stored = (value) => {
    try { return value ? localStorage.setItem("rocescope-theme", value) : localStorage.getItem("rocescope-theme"); } catch (e) { return null; }
  };
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const choose = (value) => { root.dataset.theme = value; theme.setAttribute("aria-pressed", value === "dark"); };
  if (stored()) choose(stored());
  theme.addEventListener("click", () => { choose(isDark() ? "light" : "dark"); stored(root.dataset.theme); });

  // Tables: a click on a heading sorts, a word in the box filters, the chips choose severities.
  const hidden = new Set();
  const filter = document.getElementById("filter"), table = document.getElementById("connection-table"), count = document.getElementById("filter-count");
  const show = () => {
    for (const e of all(".finding[data-severity]")) e.hidden = hidden.has(e.dataset.severity);
    if (!table) return;
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    const rows = table.tBodies[0].rows;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = hidden.has(row.dataset.severity) || !words.every((w) => text.includes(w));
      if (!row.hidden) shown++;
    }
    count.textContent = shown === rows.length ? "" : shown + " of " + rows.length;
  };
  for (const chip of all("button.chip")) chip.addEventListener("click", () => {
    const off = chip.getAttribute("aria-pressed") === "true";
    chip.setAttribute("aria-pressed", !off);
    if (off) hidden.add(chip.dataset.severity); else hidden.delete(chip.dataset.severity);
    show();
  });
  if (filter) filter.addEventListener("input", show);
  if (filter && !table) filter.hidden = true;

  const key = (row, i) => { const c = row.cells[i]; return c.dataset.v === undefined ? c.textContent : c.dataset.v; };
  if (table) all("thead th", table).forEach((th, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...th.childNodes);
    th.append(button);
    button.addEventListener("click", () => {
      const numbers = th.classList.contains("num"), was = th.getAttribute("aria-sort");
      const sign = was ? (was === "descending" ? 1 : -1) : (numbers && i > 0 ? -1 : 1);
      const rows = Array.from(table.tBodies[0].rows);
      rows.sort((x, y) => sign * (numbers ? key(x, i) - key(y, i) : key(x, i).localeCompare(key(y, i), "en", { numeric: true })));
      table.tBodies[0].append(...rows);
      for (const other of all("th[aria-sort]", table)) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    });
  });

  // Numbers in words, as the program writes them.
  const hex = (v) => "0x" + (((v % 16777216) + 16777216) % 16777216).toString(16).padStart(6, "0");
  const scaled = (v, step, names) => {
    let i = 0;
    while (i < names.length - 1 && v >= step - 0.5) { v /= step; i++; }
    return (i === 0 ? v.toFixed(0) : v >= 99.95 ? v.toFixed(0) : v.toFixed(step === 1024 ? 1 : 2)) + " " + names[i];
  };
  const span = (ns) => {
    const a = Math.abs(ns), three = (v) => Math.abs(v) < 9.995 ? v.toFixed(2) : Math.abs(v) < 99.95 ? v.toFixed(1) : v.toFixed(0);
    return a < 1e3 ? ns.toFixed(0) + " ns" : a < 999.5e3 ? three(ns / 1e3) + " us" : a < 999.5e6 ? three(ns / 1e6) + " ms" : three(ns / 1e9) + " s";
  };
  // A moment is written as exactly as the part of the time that is shown allows.
  const moment = (ns, width) => {
    const [size, name] = ns >= 1e9 ? [1e9, " s"] : ns >= 1e6 ? [1e6, " ms"] : ns >= 1e3 ? [1e3, " µs"] : [1, " ns"];
    return (ns / size).toFixed(Math.max(0, Math.min(9, Math.ceil(-Math.log10(width / size / 2000))))) + name;
  };
  const words = (axis, v) => ({
    psn: () => hex(Math.round(v) + axis.base), rate: () => scaled(v, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]),
    bytes: () => scaled(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]), span: () => span(Math.pow(10, v)), count: () => Math.round(v).toLocaleString("en-US"),
    time: () => moment(v, axis.hi - axis.lo),
  })[axis.kind]();

  // Ticks of an axis, as scale.go has them.
  const units = {
    time: [[1, " ns"], [1e3, " µs"], [1e6, " ms"], [1e9, " s"]], rate: [[1, " bit/s"], [1e3, " kbit/s"], [1e6, " Mbit/s"], [1e9, " Gbit/s"]],
    bytes: [[1, " B"], [1024, " KiB"], [1048576, " MiB"], [1073741824, " GiB"]], count: [[1, ""]],
  };
  const nice = (v) => {
    const power = Math.pow(10, Math.floor(Math.log10(v)));
    return power * (v <= power * (1 + 1e-9) ? 1 : v <= 2 * power * (1 + 1e-9) ? 2 : v <= 5 * power * (1 + 1e-9) ? 5 : 10);
  };
  const ticks = (axis, n) => {
    const out = [];
    if (axis.kind === "span") {
      for (let e = Math.ceil(axis.lo - 1e-9); e <= axis.hi + 1e-9; e++) out.push([e, span(Math.pow(10, e))]);
      if (out.length < 2) for (const v of [axis.lo + (axis.hi - axis.lo) / 4, axis.hi - (axis.hi - axis.lo) / 4]) out.push([v, span(Math.pow(10, v))]);
    } else if (axis.kind === "psn") {
      const step = Math.max(1, Math.pow(2, Math.ceil(Math.log2((axis.hi - axis.lo) / n))));
      for (let v = Math.ceil((axis.lo + axis.base) / step) * step; v - axis.base <= axis.hi; v += step) out.push([v - axis.base, hex(v)]);
    } else {
      let unit = units[axis.kind][0];
      for (const u of units[axis.kind]) if (axis.hi >= u[0]) unit = u;
      const step = nice((axis.hi - axis.lo) / unit[0] / n), digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
      for (let i = Math.ceil(axis.lo / unit[0] / step - 1e-9); i * step * unit[0] <= axis.hi * (1 + 1e-12); i++)
        out.push([i * step * unit[0], (i === 0 ? "0" : (i * step).toFixed(digits)) + unit[1]]);
    }
    return out;
  };

  const ns = "http://www.w3.org/2000/svg";
  const make = (name, attributes, parent) => {
    const e = document.createElementNS(ns, name);
    for (const k in attributes) e.setAttribute(k, attributes[k]);
    if (parent) parent.append(e);
    return e;
  };
  const axisOf = (text) => {
    const [kind, lo, hi, unit, base] = text.split(" ");
    return { kind, lo: +lo, hi: +hi, unit: +unit, base: +base };
  };

  // A chart reads its values from its paths, once somebody looks at it.
  class Chart {
    constructor(svg) {
      this.svg = svg;
      this.x0 = axisOf(svg.dataset.x); this.y0 = axisOf(svg.dataset.y);
      this.x = Object.assign({}, this.x0); this.y = Object.assign({}, this.y0);
      [this.left, this.top, this.width, this.height] = svg.dataset.frame.split(" ").map(Number);
      this.data = svg.querySelector(".data");
      this.tickBox = svg.querySelector(".ticks");
      this.timed = this.x0.kind === "time";
      this.peers = [this];
    }

    layers() {
      if (this.read) return this.read;
      this.read = all("path.layer", this.data).map((path) => {
        const points = [], frames = path.dataset.f ? path.dataset.f.split(" ") : null, counts = path.dataset.n ? path.dataset.n.split(" ") : null;
        const bars = path.classList.contains("bar"), form = /M(-?\d+) (-?\d+)(?:V(-?\d+))?(?:H(-?\d+))?/g;
        let m, frame = 0, i = 0;
        while ((m = form.exec(path.getAttribute("d")))) {
          if (frames) frame += +frames[i];
          const p = { x: this.x0.lo + m[1] * this.x0.unit, lo: this.y0.lo + m[2] * this.y0.unit, frame, n: counts ? +counts[i] : 1 };
          p.hi = m[3] === undefined ? p.lo : this.y0.lo + m[3] * this.y0.unit;
          p.end = m[4] === undefined ? p.x : this.x0.lo + m[4] * this.x0.unit;
          points.push(p);
          i++;
        }
        return { name: path.dataset.name, points, bars };
      });
      for (const g of all("g.signs", this.svg)) {
        const points = all("use", g).map((use) => {
          const [x, y, frame, n] = use.dataset.p.split(" ").map(Number), v = this.y0.lo + y * this.y0.unit;
          return { x: this.x0.lo + x * this.x0.unit, end: this.x0.lo + x * this.x0.unit, lo: v, hi: v, frame, n, use };
        });
        this.read.push({ name: g.dataset.name, points, signs: true });
      }
      return this.read;
    }

    px(v) { return this.left + (v - this.x.lo) / (this.x.hi - this.x.lo) * this.width; }
    py(v) { return this.top + this.height - (v - this.y.lo) / (this.y.hi - this.y.lo) * this.height; }

    // draw maps what is in the window into the frame. The y axis shows what is there, bars from zero on.
    draw(lo, hi) {
      this.x.lo = lo; this.x.hi = hi;
      const whole = lo <= this.x0.lo && hi >= this.x0.hi;
      let from = Infinity, to = -Infinity, bars = false;
      for (const layer of this.layers()) {
        bars = bars || layer.bars;
        for (const p of layer.points) if (p.end >= lo && p.x <= hi) { from = Math.min(from, p.lo); to = Math.max(to, p.hi); }
      }
      this.y.lo = this.y0.lo; this.y.hi = this.y0.hi;
      if (!whole && to >= from) {
        const room = bars ? to * 0.06 : Math.max((to - from) * 0.08, this.y0.kind === "psn" ? 1 : 0.02);
        this.y.lo = bars ? 0 : from - room;
        this.y.hi = Math.max(to + room, this.y.lo + (bars ? 1e-9 : 0.04));
      }
      const sx = this.width / (hi - lo) * this.x0.unit, sy = this.height / (this.y.hi - this.y.lo) * this.y0.unit;
      this.data.setAttribute("transform", "translate(" + this.px(this.x0.lo) + " " + this.py(this.y0.lo) + ") scale(" + sx + " " + -sy + ")");
      for (const layer of this.layers()) if (layer.signs) for (const p of layer.points) {
        p.use.setAttribute("x", this.px(p.x)); p.use.setAttribute("y", this.py(p.lo));
      }
      for (const flag of all("g.flag", this.svg))
        flag.setAttribute("transform", "translate(" + this.px(this.x0.lo + flag.dataset.at * this.x0.unit) + " 0)");
      this.tickBox.replaceChildren();
      for (const [v, text] of ticks(this.y, Math.max(2, Math.floor(this.height / 34)))) {
        const at = this.py(v);
        make("line", { class: "gridline", x1: this.left, x2: this.left + this.width, y1: at, y2: at }, this.tickBox);
        make("text", { class: "tick end", x: this.left - 7, y: at + 4 }, this.tickBox).textContent = text;
      }
      for (const [v, text] of ticks(this.x, Math.max(2, Math.floor(this.width / 110)))) {
        const at = this.px(v);
        make("line", { class: "gridline", x1: at, x2: at, y1: this.top, y2: this.top + this.height }, this.tickBox);
        make("text", { class: "tick mid", x: at, y: this.top + this.height + 17 }, this.tickBox).textContent = text;
      }
      this.leave();
    }

    // at is a place on the screen in the drawing's units.
    at(event) {
      const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      return { x: Math.max(this.left, Math.min(this.left + this.width, p.x)), y: p.y };
    }
    value(x) { return this.x.lo + (x - this.left) / this.width * (this.x.hi - this.x.lo); }

    // near finds what is shown at a place: of bars each at that time, else the one nearest point.
    near(x, y) {
      const found = [];
      let best = null, distance = 900;
      for (const layer of this.layers()) for (const p of layer.points) {
        if (p.end < this.x.lo || p.x > this.x.hi) continue;
        if (layer.bars) {
          const v = this.value(x);
          if (p.x <= v && v < p.end) found.push({ layer, p, x: (this.px(p.x) + this.px(p.end)) / 2, y: this.py(p.hi) });
          continue;
        }
        const px = this.px(p.x), dy = y < this.py(p.hi) ? this.py(p.hi) - y : y > this.py(p.lo) ? y - this.py(p.lo) : 0;
        const d = (px - x) * (px - x) + dy * dy - (layer.signs ? 30 : 0);
        if (d < distance) { distance = d; best = { layer, p, x: px, y: Math.max(this.py(p.hi), Math.min(this.py(p.lo), y)) }; }
      }
      return best ? found.concat(best) : found;
    }

    describe(found, x) {
      const lines = [];
      if (this.timed) lines.push(moment(found.length === 1 && !found[0].layer.bars ? found[0].p.x : this.value(x), this.x.hi - this.x.lo));
      for (const { layer, p } of found) {
        let text = layer.name + ": ";
        if (!this.timed) text = span(Math.pow(10, p.x)) + " to " + span(Math.pow(10, p.end)) + ", " + text;
        if (layer.signs && this.y0.kind !== "psn") { lines.push(layer.name); continue; }
        text += layer.bars || p.hi === p.lo ? words(this.y0, p.hi) : words(this.y0, p.lo) + " to " + words(this.y0, p.hi);
        if (p.n > 1) text += ", " + p.n + (this.y0.kind === "psn" ? " packets" : " messages");
        if (p.frame) text += (p.n > 1 ? " from frame " : ", frame ") + p.frame + (p.n > 1 ? " on" : "");
        lines.push(text);
      }
      return lines.join("\n");
    }

    point(x, y, clientX, clientY) {
      const found = this.near(x, y);
      this.leave();
      this.marks = [make("line", { class: "cursor", x1: x, x2: x, y1: this.top, y2: this.top + this.height }, this.svg)];
      for (const f of found) if (!f.layer.bars) this.marks.push(make("circle", { class: "spot", cx: f.x, cy: f.y, r: 6 }, this.svg));
      tip.textContent = found.length ? this.describe(found, x) : this.timed ? moment(this.value(x), this.x.hi - this.x.lo) : "";
      tip.hidden = !tip.textContent;
      const box = tip.getBoundingClientRect();
      tip.style.left = Math.max(6, Math.min(clientX + 16, innerWidth - box.width - 6)) + "px";
      tip.style.top = (clientY + 18 + box.height > innerHeight ? clientY - box.height - 12 : clientY + 18) + "px";
    }
    leave() {
      for (const m of this.marks || []) m.remove();
      this.marks = [];
      tip.hidden = true;
    }

    // keyboard: the cursor steps from point to point.
    step(by) {
      const places = [];
      for (const layer of this.layers()) for (const p of layer.points) {
        const x = layer.bars ? (p.x + p.end) / 2 : p.x;
        if (x >= this.x.lo && x <= this.x.hi) places.push({ x, y: layer.bars ? p.hi : (p.lo + p.hi) / 2 });
      }
      if (!places.length) return;
      places.sort((a, b) => a.x - b.x);
      this.index = this.index === undefined ? (by > 0 ? 0 : places.length - 1) : Math.max(0, Math.min(places.length - 1, this.index + by));
      const p = places[this.index], screen = new DOMPoint(this.px(p.x), this.py(p.y)).matrixTransform(this.svg.getScreenCTM());
      this.point(this.px(p.x), this.py(p.y), screen.x, screen.y);
    }
  }

  const tip = document.getElementById("tip");
  const charts = new Map();
  const chartOf = (svg) => { if (!charts.has(svg)) charts.set(svg, new Chart(svg)); return charts.get(svg); };

  // The charts over time of one connection show the same part of it.
  const group = (section) => all("svg.chart", section).map(chartOf).filter((c) => c.timed);
  const zoom = (section, lo, hi) => {
    const list = group(section);
    if (!list.length) return;
    const whole = list[0].x0, least = Math.max((whole.hi - whole.lo) / 20000, whole.unit * 4, 1);
    if (hi - lo < least) { const mid = (lo + hi) / 2; lo = mid - least / 2; hi = mid + least / 2; }
    if (lo < whole.lo) { hi += whole.lo - lo; lo = whole.lo; }
    if (hi > whole.hi) { lo -= hi - whole.hi; hi = whole.hi; }
    lo = Math.max(lo, whole.lo);
    for (const c of list) { c.index = undefined; c.draw(lo, hi); }
  };
  const act = (section, what) => {
    const list = group(section);
    if (!list.length) return;
    const { lo, hi } = list[0].x, width = hi - lo, mid = (lo + hi) / 2, whole = list[0].x0;
    const to = { in: [mid - width / 4, mid + width / 4], out: [mid - width, mid + width], left: [lo - width / 3, hi - width / 3], right: [lo + width / 3, hi + width / 3], reset: [whole.lo, whole.hi] }[what];
    if (what === "left" && to[0] < whole.lo) { to[0] = whole.lo; to[1] = whole.lo + width; }
    if (what === "right" && to[1] > whole.hi) { to[1] = whole.hi; to[0] = whole.hi - width; }
    zoom(section, to[0], to[1]);
  };
  for (const button of all("[data-zoom]")) button.addEventListener("click", () => act(button.closest("section"), button.dataset.zoom));

  let drag = null;
  const chartAt = (event) => { const svg = event.target.closest && event.target.closest("svg.chart"); return svg ? chartOf(svg) : null; };
  document.addEventListener("pointermove", (event) => {
    if (drag) {
      const at = drag.chart.at(event);
      drag.moved = drag.moved || Math.abs(at.x - drag.x) > 4;
      drag.box.setAttribute("x", Math.min(at.x, drag.x));
      drag.box.setAttribute("width", Math.abs(at.x - drag.x));
      return;
    }
    const chart = chartAt(event);
    for (const c of charts.values()) if (c !== chart && c.marks && c.marks.length) c.leave();
    if (chart) { const at = chart.at(event); chart.point(at.x, at.y, event.clientX, event.clientY); }
  });
  document.addEventListener("pointerdown", (event) => {
    const chart = chartAt(event);
    if (!chart || !chart.timed || event.button !== 0 || event.pointerType === "touch" || event.target.closest("a")) return;
    const at = chart.at(event);
    drag = { chart, x: at.x, box: make("rect", { class: "chosen", x: at.x, y: chart.top, width: 0, height: chart.height }, chart.svg) };
    chart.leave();
    event.preventDefault();
    chart.svg.focus({ preventScroll: true });
  });
  document.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const { chart, x, box, moved } = drag, at = chart.at(event);
    box.remove();
    drag = null;
    if (moved) zoom(chart.svg.closest("section"), chart.value(Math.min(x, at.x)), chart.value(Math.max(x, at.x)));
  });
  document.addEventListener("dblclick", (event) => { const chart = chartAt(event); if (chart && chart.timed) act(chart.svg.closest("section"), "reset"); });
  document.addEventListener("wheel", (event) => {
    const chart = event.ctrlKey || event.metaKey ? chartAt(event) : null;
    if (!chart || !chart.timed) return;
    event.preventDefault();
    const v = chart.value(chart.at(event).x), by = event.deltaY > 0 ? 1.3 : 1 / 1.3;
    zoom(chart.svg.closest("section"), v - (v - chart.x.lo) * by, v + (chart.x.hi - v) * by);
  }, { passive: false });
  document.addEventListener("keydown", (event) => {
    const svg = event.target.closest && event.target.closest("svg.chart");
    if (!svg || event.target !== svg || event.ctrlKey || event.metaKey || event.altKey) return;
    const chart = chartOf(svg), section = svg.closest("section");
    const move = { ArrowLeft: event.shiftKey ? () => act(section, "left") : () => chart.step(-1), ArrowRight: event.shiftKey ? () => act(section, "right") : () => chart.step(1),
      "+": () => act(section, "in"), "=": () => act(section, "in"), "-": () => act(section, "out"), "0": () => act(section, "reset"), Escape: () => chart.leave() }[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  });
  document.addEventListener("focusout", (event) => { const svg = event.target.closest && event.target.closest("svg.chart"); if (svg) chartOf(svg).leave(); });

  // From a finding to its place in the plots.
  for (const link of all("a.jump")) link.addEventListener("click", (event) => {
    const section = document.getElementById(link.dataset.plot), list = section ? group(section) : [];
    if (!list.length) return;
    event.preventDefault();
    const whole = list[0].x0, at = +link.dataset.at, width = (whole.hi - whole.lo) / 8;
    zoom(section, at - width / 2, at + width / 2);
    history.replaceState(null, "", "#" + section.id);
    section.scrollIntoView();
    list[0].svg.focus({ preventScroll: true });
    const y = list[0].top + list[0].height / 2, screen = new DOMPoint(list[0].px(at), y).matrixTransform(list[0].svg.getScreenCTM());
    list[0].point(list[0].px(at), y, screen.x, screen.y);
  });

  // What is folded away is printed too.
  let opened = [];
  addEventListener("beforeprint", () => { opened = all("details:not([open])").filter((d) => !d.classList.contains("numbers")); for (const d of opened) d.open = true; });
  addEventListener("afterprint", () => { for (const d of opened) d.open = false; });
})();
