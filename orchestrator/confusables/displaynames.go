// Package confusables finds names that look alike to a person.
package confusables

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"mailroom/orchestrator"
)

// Look is the appearance of a name in a form that can be compared: Unicode's compatibility form (NFKC) without case
// and the width of gaps, with each character that looks like ASCII letters or digits replaced by these. There are
// two texts, because capitals look like other letters than their small forms: В looks like B, but в looks like
// nothing in ASCII; I looks like l, but i does not.
type Look struct {
	Small   string // replaced after case folding
	capital string // replaced both before and after case folding
}

// LookOf returns how a name looks to a person.
func LookOf(name string) Look {
	// U+2800 is the Braille blank.
	words := strings.FieldsFunc(norm.NFKC.String(name), func(r rune) bool {
		return unicode.IsSpace(r) ||
			r == '\u2800'
	})
	plain := strings.Join(words, " ")
	return Look{Small: plainLetters(foldCase(plain)), capital: plainLetters(foldCase(plainLetters(plain)))}
}

// Like reports whether a name can be mistaken for the name with this look.
func (l Look) Like(name string) bool {
	other := LookOf(name)
	return l.Small == other.Small || l.Small == other.capital || l.capital == other.Small || l.capital == other.capital
}

// Shows reports whether any part of a text is visible.
func Shows(text string) bool { return plainLetters(seenOf(text)) != "" }

// LookAlike reports whether two texts that are shown beside each other look the same. Unlike names, texts that
// differ in case do not look alike, nor do different texts that are both ASCII.
func LookAlike(a, b string) bool {
	a, b = seenOf(a), seenOf(b)
	return a == b || !(isASCII(a) && isASCII(b)) && plainLetters(a) == plainLetters(b)
}

// seenOf returns a text without invisible characters, and with each gap as one space.
func seenOf(text string) string {
	seen := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), r == '\u2800': // the Braille blank
			return ' '
		case orchestrator.Unseen(r):
			return -1
		}
		return r
	}, norm.NFC.String(text))
	return strings.Join(strings.Fields(seen), " ")
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0
}

// plainOf maps each character of the table to the text that it looks like.
var plainOf = sync.OnceValue(func() map[rune]string {
	plain := map[rune]string{}
	for _, row := range lookalikes {
		for _, r := range row.characters {
			plain[r] = row.like
		}
	}
	return plain
})

// plainLetters replaces characters that look like ASCII letters or digits by these, and drops variation selectors.
func plainLetters(s string) string {
	var b strings.Builder
	for _, r := range s {
		if plain, found := plainOf()[r]; found {
			b.WriteString(plain)
		} else if !unicode.Is(unicode.Variation_Selector, r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// foldCase makes texts equal that differ only in case; ß becomes ss. It converts to upper case first, because some
// small letters share a capital.
func foldCase(s string) string {
	return strings.ToLower(strings.ToUpper(strings.NewReplacer("ß", "ss", "ẞ", "ss").Replace(s)))
}

// mixedScripts lists the scripts that are written together in one word.
var mixedScripts = [][]string{{"Han", "Hiragana", "Katakana"}, {"Han", "Hangul"}, {"Han", "Bopomofo"}}

// CheckScripts returns an error for a word with letters of several scripts, unless these are written together.
// Nobody would notice an a of another alphabet in a Latin word. Any character that is not a letter, a mark or a
// number ends a word.
func CheckScripts(name string) error {
	for _, word := range strings.FieldsFunc(name,
		func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) }) {
		var scripts []string
		for _, r := range word {
			if s := scriptOf(r); s != "" && !slices.Contains(scripts, s) {
				scripts = append(scripts, s)
			}
			if len(scripts) > 1 && !slices.ContainsFunc(mixedScripts, func(family []string) bool {
				return !slices.ContainsFunc(scripts, func(s string) bool { return !slices.Contains(family, s) })
			}) {
				return orchestrator.Errorf(orchestrator.InvalidParams,
					"the display name mixes scripts: %q contains %s letters, such as U+%04X", word,
					strings.Join(scripts, " and "), r).
					WithHint("Use letters of only one script in each word")
			}
		}
	}
	return nil
}

// scriptOf returns the script of a character, or "" if it belongs to none or several, as digits do.
func scriptOf(r rune) string {
	for name, table := range unicode.Scripts {
		if name != "Common" && name != "Inherited" && unicode.Is(table, r) {
			return name
		}
	}
	return ""
}
