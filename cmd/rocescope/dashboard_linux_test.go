package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dashboard is the file for Grafana.
const dashboard = "../../docs/grafana-rocescope.json"

// expressions are the queries of a dashboard, wherever they stand in it.
func expressions(v any) (list []string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if s, ok := value.(string); ok && key == "expr" {
				list = append(list, s)
			} else {
				list = append(list, expressions(value)...)
			}
		}
	case []any:
		for _, value := range v {
			list = append(list, expressions(value)...)
		}
	}
	return list
}

func dashboardExpressions(t *testing.T) []string {
	t.Helper()
	var d any
	if err := json.Unmarshal(mustRead(t, dashboard), &d); err != nil {
		t.Fatal(err)
	}
	list := expressions(d)
	if len(list) < 8 {
		t.Fatalf("the dashboard has %d queries: %q", len(list), list)
	}
	return list
}

var (
	asked    = regexp.MustCompile(`(rocescope_\w+)(?:\{([^}]*)\})?`)
	grouped  = regexp.MustCompile(`by \(([^)]*)\)`)
	sample   = regexp.MustCompile(`(?m)^(rocescope_\w+)(?:\{(.*)\})? \S+$`)
	labelled = regexp.MustCompile(`(\w+)=~?"`)
)

// checkDashboard holds what the dashboard asks for of a page of counters: that its metrics are there, and their labels where they
// have samples. Prometheus adds job and instance by itself. of chooses among the metrics, for a page has those of its own run.
func checkDashboard(t *testing.T, page string, of func(metric string) bool) {
	t.Helper()
	labels := map[string]map[string]bool{}
	for _, m := range sample.FindAllStringSubmatch(page, -1) {
		if labels[m[1]] == nil {
			labels[m[1]] = map[string]bool{"instance": true, "job": true}
		}
		for _, l := range labelled.FindAllStringSubmatch(m[2], -1) {
			labels[m[1]][l[1]] = true
		}
	}
	met := 0
	for _, expr := range dashboardExpressions(t) {
		m := asked.FindStringSubmatch(expr)
		if m == nil {
			t.Errorf("no metric of ours: %s", expr)
			continue
		}
		if !of(m[1]) {
			continue
		}
		met++
		have, sampled := labels[m[1]]
		if !sampled {
			if family := strings.TrimSuffix(m[1], "_bucket"); !strings.Contains(page, "# TYPE "+family+" ") {
				t.Errorf("the page has no metric %s: %s", m[1], expr)
			}
			continue
		}
		wanted := labelled.FindAllStringSubmatch(m[2], -1)
		for _, g := range grouped.FindAllStringSubmatch(expr, -1) {
			for _, l := range strings.Split(g[1], ",") {
				wanted = append(wanted, []string{"", strings.TrimSpace(l)})
			}
		}
		for _, l := range wanted {
			if !have[l[1]] {
				t.Errorf("%s has no label %s: %s", m[1], l[1], expr)
			}
		}
	}
	if met == 0 {
		t.Error("the dashboard asks for nothing of the page")
	}
	promtool(t, page, "check", "metrics")
}

// promtool has Prometheus' own tool read something; where it is not installed, nothing is read.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("not read by promtool, which is not installed (package prometheus)")
		return
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 && !strings.Contains(string(out), "SUCCESS") {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestDashboardQueries: Prometheus understands each query.
func TestDashboardQueries(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed (package prometheus)")
	}
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for i, expr := range dashboardExpressions(t) {
		expr = strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*").Replace(expr)
		rules += fmt.Sprintf("  - record: query:%d\n    expr: %q\n", i, expr)
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", file)
}
