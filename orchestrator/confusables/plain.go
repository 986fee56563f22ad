package confusables

import (
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"mailroom/orchestrator"
)

// Plain returns how one character looks in ASCII. ASCII characters stay, invisible characters become "", gaps
// become a space, and characters that look like ASCII letters, digits or signs become these. All others stay.
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

// plainSign returns what a character that NFKC leaves unchanged looks like, or text if it looks like nothing in
// ASCII.
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

// signs maps each character to the ASCII sign that it looks like, for signs that begin, end or divide a tag. NFKC
// covers other characters.
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
