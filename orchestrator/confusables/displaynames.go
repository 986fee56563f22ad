// Package confusables tells which names look alike to a person.
package confusables

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"mailroom/orchestrator"
)

// Look is how a name looks, in a form in which names can be compared: Unicode's compatible form (NFKC) without regard
// to case and to the width of gaps, in which each character that looks like ASCII letters or digits is replaced by
// these. That gives two texts, since capitals look like other letters than the small ones: В looks like B, and в like
// nothing that is ASCII; I looks like l, and i does not.
type Look struct {
	Small   string // replaced after capitals were made small
	capital string // replaced before, too
}

// LookOf returns how a name looks to a person.
func LookOf(name string) Look {
	// the Braille blank
	words := strings.FieldsFunc(norm.NFKC.String(name), func(r rune) bool {
		return unicode.IsSpace(r) ||
			r == '\u2800'
	})
	plain := strings.Join(words, " ")
	return Look{Small: plainLetters(foldCase(plain)), capital: plainLetters(foldCase(plainLetters(plain)))}
}

// Like reports whether a name can be taken for the one whose look this is.
func (l Look) Like(name string) bool {
	other := LookOf(name)
	return l.Small == other.Small || l.Small == other.capital || l.capital == other.Small || l.capital == other.capital
}

// Shows reports whether anything is seen of a text.
func Shows(text string) bool { return plainLetters(seenOf(text)) != "" }

// LookAlike reports whether two texts that are shown beside each other look the same. Unlike names, those that differ
// in case do not, nor do those that both are ASCII.
func LookAlike(a, b string) bool {
	a, b = seenOf(a), seenOf(b)
	return a == b || !(isASCII(a) && isASCII(b)) && plainLetters(a) == plainLetters(b)
}

// seenOf returns a text without the characters that show nothing, and with each gap as one space.
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

// plainOf holds what each character of the table looks like.
var plainOf = sync.OnceValue(func() map[rune]string {
	plain := map[rune]string{}
	for _, row := range lookalikes {
		for _, r := range row.characters {
			plain[r] = row.like
		}
	}
	return plain
})

// plainLetters replaces what looks like ASCII letters or digits by these, and drops selectors of variants.
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

// foldCase makes texts equal that differ in case only; ß is ss. Some small letters share a capital, so it goes by way
// of that.
func foldCase(s string) string {
	return strings.ToLower(strings.ToUpper(strings.NewReplacer("ß", "ss", "ẞ", "ss").Replace(s)))
}

// mixedScripts are the scripts that are written within one word.
var mixedScripts = [][]string{{"Han", "Hiragana", "Katakana"}, {"Han", "Hangul"}, {"Han", "Bopomofo"}}

// CheckScripts refuses a word with letters of several scripts, unless they are written together: an a of another
// alphabet in a Latin word is seen by nobody. Words end at whatever is neither a letter, nor a mark, nor a number.
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

// scriptOf returns the script to which a character belongs; "" if that is none or several, as for digits.
func scriptOf(r rune) string {
	for name, table := range unicode.Scripts {
		if name != "Common" && name != "Inherited" && unicode.Is(table, r) {
			return name
		}
	}
	return ""
}
