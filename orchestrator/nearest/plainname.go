package nearest

import "strings"

// PlainName is the hint for what is not a name but holds one, as in "@bob" and "bob,"; "" if it is none of these.
func PlainName(text string, isName func(string) bool) string {
	words := strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ';' || c == ' ' })
	for i, word := range words {
		if words[i] = strings.Trim(word, "@<>:"); !isName(words[i]) {
			return ""
		}
	}
	switch {
	case len(words) == 1:
		return "Did you mean " + words[0] + "?"
	case len(words) > 1 && strings.ContainsAny(text, ",;"):
		return "Several are written to by a group: `mailroom group set NAME " + strings.Join(words, " ") + "`"
	}
	return ""
}
