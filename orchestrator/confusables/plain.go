package confusables

import (
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"mailroom/orchestrator"
)

// Plain returns the appearance of a character in ASCII. An ASCII character is returned as it is. An invisible
// character gives "", and a gap gives a space. A character that looks like ASCII letters, digits or signs gives
// these. Any other character is returned as it is.
func Plain(r rune) string {
	switch {
	case r <= unicode.MaxASCII:
		return string(r)
	case unicode.IsSpace(r), r == '\u2800':
		return " "
	case orchestrator.Unseen(r), unicode.Is(unicode.Mn, r), r == '\ufffc', r == '\U0001d159':
		return ""
	}
	text := string(r)
	if norm.NFKC.PropertiesString(text).Decomposition() == nil {
		return plainSign(r, text)
	}
	var b strings.Builder
	for _, r := range norm.NFKC.String(text) {
		b.WriteString(plainSign(r, string(r)))
	}
	return b.String()
}

// plainSign returns what a character that NFKC does not change looks like, or text if it looks like no ASCII
// character.
func plainSign(r rune, text string) string {
	if r <= unicode.MaxASCII {
		return text
	}
	if sign, found := signs()[r]; found {
		return sign
	}
	if letters, found := plainOf()[r]; found {
		return letters
	}
	return text
}

// signs maps each character that looks like an ASCII sign that begins, ends or divides a tag to that sign. NFKC
// handles other such characters.
var signs = sync.OnceValue(func() map[rune]string {
	plain := map[rune]string{}
	for sign, characters := range map[string]string{
		"<": "‹˂ᐸᚲ≺⋖❬❮❰⟨⦑⧼\u3008", ">": "›˃ᐳ≻⋗❭❯❱⟩⦒⧽\u3009", "/": "⁄∕╱⟋⧸⫽〳ノ", "\\": "∖╲⟍⧵⧹", "|": "│┃╎╏❘❙❚⏐⎮∣ǀ¦",
		"[": "⁅⟦〔【〚", "]": "⁆⟧〕】〛", "_": "▁", "-": "‐‑‒–—―−⁃",
	} {
		for _, r := range characters {
			plain[r] = sign
		}
	}
	return plain
})
