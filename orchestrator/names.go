package orchestrator

import (
	"cmp"
	"slices"
	"strings"
)

// maxName is the longest agent or group name, in bytes.
const maxName = 57

// reservedNames cannot be agents: their views would clash with tables, or they mean something else.
var reservedNames = []string{"agent", Everyone, User, Operator, SystemSender}

// CheckName folds and checks the name of an agent or a group: a lower-case letter, then up to 56 letters, digits, '_'
// or '-'. Names match without regard to case. Error: invalid_params.
func CheckName(kind, name string) (string, error) {
	if len(name) > maxName {
		return "", Errorf(InvalidParams, "the %s name has %d bytes; at most %d are allowed", kind, len(name), maxName)
	}
	folded := foldName(name)
	if !isName(folded) {
		return "", Errorf(InvalidParams, "%q is not a name: it is a letter, then letters, digits, '_' or '-'", name)
	}
	return folded, nil
}

// foldName folds the case of ASCII letters, which is the only case that names have. A letter of another alphabet stays
// what it is, so that no two names that look different are one: U+212A, the Kelvin sign, is no k.
func foldName(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, name)
}

// checkNewName is CheckName for a name that is about to be given.
func checkNewName(kind, name string) (string, error) {
	folded, err := CheckName(kind, name)
	if err != nil {
		return "", err
	}
	if slices.Contains(reservedNames, folded) || strings.HasPrefix(folded, "sqlite_") {
		return "", Errorf(InvalidParams, "%q cannot be the name of %s %s: it is reserved", folded, article(kind), kind)
	}
	return folded, nil
}

// canBeAgent reports whether an agent can be added with a name.
func canBeAgent(name string) bool {
	_, err := checkNewName("agent", name)
	return err == nil
}

func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an"
	}
	return "a"
}

func isName(s string) bool {
	if s == "" || len(s) > maxName || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// didYouMean is the hint for an unknown name: the nearest known ones.
func didYouMean(name string, known []string) string {
	if near := Nearest(name, known); len(near) > 0 {
		return "Did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}

// unknown notes that a name which nobody has is what is wrong, and the nearest of those that are known.
func (e *Error) unknown(name string, known []string) *Error {
	e.Unknown = name
	if near := Nearest(name, known); len(near) > 0 {
		e.Details = map[string]any{"near": near}
	}
	return e
}

// whoThereIs is the hint for the name of an agent that was looked up in vain.
func whoThereIs(name string, conf *config) string {
	return cmp.Or(didYouMean(name, conf.names), "`mailroom agent list` shows who there is")
}

// addIt is the hint for a name that may be one that is not known yet.
func addIt(name string) string {
	if slices.Contains(reservedNames, foldName(name)) {
		return "The name is reserved, and cannot be an agent's"
	}
	if !canBeAgent(name) {
		return noAgentsName
	}
	return "Add the agent with `mailroom agent add " + name + "`"
}

// Clip shortens what somebody else wrote, for a message: to 64 bytes, and dots.
func Clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "..."
	}
	return s
}

// Nearest returns up to three of known that are close enough to name to be what was meant, nearest first.
func Nearest(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	if len(name) > 2*maxName {
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

// editDistance is the Levenshtein distance in bytes.
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
