package confusables

import (
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"mailroom/orchestrator"
)

// Plain returns how one character looks in ASCII: itself if it is that, nothing if it shows nothing, a space for a gap,
// and letters, digits or signs for what looks like them. What looks like none of these stays.
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

// plainSign returns what a character looks like that NFKC leaves as it is, or text if it looks like nothing.
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

// signs holds what each character looks like that looks like a sign of ASCII with which a tag begins, ends or is
// divided. NFKC has others.
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
