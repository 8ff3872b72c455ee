package filter

import (
	"fmt"
	"strconv"
	"strings"
)

// quote puts a piece of the source in quotes, cut if it is long.
func quote(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		s = string(r[:most-1]) + "…"
	}
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		return string(visible(s))
	}
	return strconv.Quote(s)
}

// suggest returns up to three of the candidates that a mistyped word may have
// meant, nearest first.
func suggest(word string, candidates []string) []string {
	if len(word) > 64 {
		return nil
	}
	word = strings.ToLower(word)
	limit := min(max(len(word)/4, 1), 3)
	var found []string
	var dist []int
	for _, c := range candidates {
		d := Distance(word, strings.ToLower(c), limit)
		if d > limit {
			continue
		}
		at := len(found)
		for at > 0 && dist[at-1] > d {
			at--
		}
		found = append(found[:at], append([]string{c}, found[at:]...)...)
		dist = append(dist[:at], append([]int{d}, dist[at:]...)...)
		if len(found) > 3 {
			found, dist = found[:3], dist[:3]
		}
	}
	for i := range found { // only the nearest
		if dist[i] > dist[0] {
			return found[:i]
		}
	}
	return found
}

// Distance tells how far a mistyped word is from another: it counts the letters
// to insert, remove, replace or exchange with their neighbour; counts beyond
// limit are given as limit+1.
func Distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		best := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
			best = min(best, cur[j])
		}
		if best > limit {
			return limit + 1
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}

// didYouMean makes a hint of suggestions, "" without any.
func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "did you mean " + oneOf(names) + "?"
}

// oneOf writes "a", "a or b", "a, b or c".
func oneOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// suggestField finds what an unknown name may have meant: the same name of
// another header, or one spelt nearly so. The answer has "infiniband." in front
// if the word has.
func suggestField(word string) string {
	all := symbols().order
	long := strings.HasPrefix(word, prefix)
	var tails, candidates []string
	for _, s := range all {
		name := s.name
		if !long {
			name = strings.TrimPrefix(name, prefix)
		}
		candidates = append(candidates, name)
		if strings.HasSuffix(name, "."+strings.ToLower(word)) || strings.EqualFold(name, word) {
			tails = append(tails, name)
		}
	}
	if len(tails) > 0 && len(tails) <= 4 {
		return didYouMean(tails)
	}
	if hint := didYouMean(suggest(word, candidates)); hint != "" {
		return hint
	}
	return "the command `rocescope fields` lists all"
}

// suggestWord finds what an unknown word of a field may have meant.
func (w *words) suggest(word string, began []string) string {
	if n := len(began); n > 6 {
		return fmt.Sprintf("%d names begin so: %s, …", n, strings.Join(quoteSpaced(began[:4]), ", "))
	}
	if len(began) == 0 {
		began = suggest(word, w.names)
	}
	if len(began) == 0 && len(word) >= 3 {
		for _, n := range w.names {
			if strings.Contains(normal(n), normal(word)) {
				began = append(began, n)
			}
		}
		began = began[:min(len(began), 4)]
	}
	switch {
	case len(began) > 0:
		return didYouMean(quoteSpaced(began))
	case len(w.names) <= 12:
		return "it is " + oneOf(quoteSpaced(w.names))
	}
	return ""
}

// quoteSpaced quotes names that need it in a filter.
func quoteSpaced(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		if wordLen(n) != len(n) || n == "" {
			n = strconv.Quote(n)
		}
		out[i] = n
	}
	return out
}
