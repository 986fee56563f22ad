// Package confusables finds names and texts that look alike to a person.
package confusables

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"mailroom/orchestrator"
)

// Look is the appearance of a name in a form for comparison. It is Unicode's compatibility form (NFKC), without
// regard to case and to the width of gaps, with each character that looks like ASCII letters or digits replaced by
// these. Look holds two texts, since capitals look like other letters than small letters do: В looks like B, and в
// like no ASCII letter; I looks like l, and i does not.
type Look struct {
	Small   string // characters replaced after the case was folded
	capital string // characters replaced before the case was folded, too
}

// LookOf returns the appearance of a name.
func LookOf(name string) Look {
	// the Braille blank
	words := strings.FieldsFunc(norm.NFKC.String(name), func(r rune) bool {
		return unicode.IsSpace(r) ||
			r == '\u2800'
	})
	plain := strings.Join(words, " ")
	return Look{Small: plainLetters(foldCase(plain)), capital: plainLetters(foldCase(plainLetters(plain)))}
}

// Like reports whether a person can mistake a name for the name with this look.
func (l Look) Like(name string) bool {
	other := LookOf(name)
	return l.Small == other.Small || l.Small == other.capital || l.capital == other.Small || l.capital == other.capital
}

// Shows reports whether a text contains any visible character.
func Shows(text string) bool { return plainLetters(seenOf(text)) != "" }

// LookAlike reports whether two texts look the same when they are shown beside each other. Unlike names, texts that
// differ in case do not look the same, nor do two different ASCII texts.
func LookAlike(a, b string) bool {
	a, b = seenOf(a), seenOf(b)
	return a == b || !(isASCII(a) && isASCII(b)) && plainLetters(a) == plainLetters(b)
}

// seenOf returns a text without its invisible characters, and with each gap as one space.
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

// plainOf maps each character of the table to the letters or digits that it looks like.
var plainOf = sync.OnceValue(func() map[rune]string {
	plain := map[rune]string{}
	for _, row := range lookalikes {
		for _, r := range row.characters {
			plain[r] = row.like
		}
	}
	return plain
})

// plainLetters replaces each character that looks like ASCII letters or digits by these, and removes variation
// selectors.
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

// foldCase folds the case of a text, so that texts that differ only in case become equal; ß becomes ss. Some small
// letters share a capital, so foldCase converts to capitals first.
func foldCase(s string) string {
	return strings.ToLower(strings.ToUpper(strings.NewReplacer("ß", "ss", "ẞ", "ss").Replace(s)))
}

// mixedScripts lists the groups of scripts that may be mixed within one word.
var mixedScripts = [][]string{{"Han", "Hiragana", "Katakana"}, {"Han", "Hangul"}, {"Han", "Bopomofo"}}

// CheckScripts returns an error if a word has letters of several scripts, unless mixedScripts allows these together.
// A person cannot see an a of another alphabet in a Latin word. A word ends at any character that is neither a
// letter, nor a mark, nor a number.
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

// scriptOf returns the script of a character, or "" if the character belongs to no script or to several, such as a
// digit.
func scriptOf(r rune) string {
	for name, table := range unicode.Scripts {
		if name != "Common" && name != "Inherited" && unicode.Is(table, r) {
			return name
		}
	}
	return ""
}
