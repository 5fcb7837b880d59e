package spell

import "strings"

// Nearest picks the word a person probably meant: one a few slips of the finger away. "" if none is
// near. Words are in lower case.
func Nearest(word string, words []string) string {
	low := strings.ToLower(word)
	best, near := "", 1+min(len(low), 12)/4
	if len(low) > 64 {
		return ""
	}
	for _, w := range words {
		if d := slips(low, w); d < near || d == near && best == "" {
			best, near = w, d
		}
	}
	return best
}

// Clip shortens what is quoted in an error.
func Clip(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:39]) + "…"
	}
	return s
}

// slips counts insertions, deletions, changes and swaps of neighbours between two words.
func slips(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
