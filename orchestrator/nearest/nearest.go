// Package nearest finds the names that are nearest to a mistyped one.
package nearest

import (
	"slices"
	"strings"
)

// longestNear is the longest name that Nearest compares, in bytes: the work grows with it.
const longestNear = 114

// Nearest returns up to three of known that are close enough to name to be what was meant, nearest first.
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
		if d <= max(2, len(k)/3) && d < max(len(k), len(name)) || (len(name) >= 3 && strings.Contains(k, name)) {
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

// editDistance returns the Levenshtein distance of two texts, in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(row[j]+1, row[j-1]+1, cost)
		}
	}
	return row[len(b)]
}
