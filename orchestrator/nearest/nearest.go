// Package nearest finds the names that are most similar to a mistyped name.
package nearest

import (
	"slices"
	"strings"
)

// longestNear is the longest name that Nearest compares, in bytes, because the cost grows with the length.
const longestNear = 114

// Nearest returns up to three names in known that name may be a misspelling of, most similar first.
func Nearest(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	if len(name) > longestNear {
		return nil
	}
	for _, k := range known {
		d := editDistance(strings.ToLower(name), strings.ToLower(k))
		if d <= mistakesIn(k) && d < max(len(k), len(name)) || (len(name) >= 3 && strings.Contains(k, name)) {
			found = append(found, candidate{k, d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.distance - b.distance })
	var names []string
	for _, c := range found[:min(3, len(found))] {
		names = append(names, c.name)
	}
	return names
}

// mistakesIn returns the number of mistakes that a misspelling of name may have. Two mistakes in a name of four
// letters would make another word.
func mistakesIn(name string) int {
	if len(name) < 5 {
		return 1
	}
	return max(2, len(name)/3)
}

// editDistance returns the number of edits that turn one text into another, in bytes. An edit inserts, deletes or
// replaces a byte, or swaps two adjacent bytes.
func editDistance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	next := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := row[j-1]
			if a[i-1] != b[j-1] {
				cost++
			}
			next[j] = min(row[j]+1, next[j-1]+1, cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
