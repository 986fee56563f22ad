package terminal

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"mailroom/orchestrator/pattern"
)

const (
	narrowest = 20 // narrowest terminal in which lines are broken, in columns
	// hangs begins each further line of a broken line that starts at the margin, so that it cannot look like a
	// separate line.
	hangs   = "  "
	tabStop = 8 // largest width of a tab
)

// signs maps Mailroom's own signs to ASCII.
var signs = strings.NewReplacer("…", "...", "→", "->", "├─", "|-", "└─", "`-", "│", "|", "·", "-")

// Sign returns one of Mailroom's own signs in a form that the locale can show.
func (w *Text) Sign(sign string) Painted {
	if w.ASCII {
		sign = signs.Replace(sign)
	}
	return Painted(sign)
}

// Cut returns a text of at most limit columns. If something is cut off, the text ends with an ellipsis.
func (w *Text) Cut(s string, limit int) string {
	if columns(s) <= limit {
		return s
	}
	ellipsis := string(w.Sign("…"))
	left, end := limit-len([]rune(ellipsis)), 0
	for i, r := range s {
		if left -= columnsOf(r); left < 0 {
			break
		}
		end = i + utf8.RuneLen(r)
	}
	return s[:end] + ellipsis
}

// raw writes a text that is safe to show. It breaks lines that are wider than the terminal between words, because the
// terminal would continue them at the margin.
func (w *Text) raw(s string) {
	if w.Width < narrowest {
		w.write(s)
		return
	}
	for line := range strings.Lines(s) {
		if w.at == 0 {
			w.hang = hangOf(strings.TrimSuffix(line, "\n"), w.Width)
		}
		w.fit(line)
	}
}

// piece matches blanks and a word. Text in backquotes is to be typed, and counts as one word.
var piece = pattern.New("^[ \t]*(?:[^` \t]*`[^`]+`[^ \t]*|[^ \t]+|$)")

// fit writes a line, or a part of one.
func (w *Text) fit(line string) {
	if w.Width < narrowest {
		w.write(line)
		return
	}
	if columns(w.hang) > w.Width/2 {
		w.hang = hangs
	}
	var b strings.Builder
	text, ends := strings.CutSuffix(line, "\n")
	for text != "" {
		next := piece().FindString(text)
		word := strings.TrimLeft(next, " \t")
		blanks, hang := next[:len(next)-len(word)], columns(w.hang)
		if strings.ContainsAny(word, " \t") && hang+columns(word) > w.Width { // too long to stay whole
			word = word[:strings.IndexAny(word, " \t")]
			next = blanks + word
		}
		if from := w.at + columns(blanks); blanks != "" && word != "" && from+columns(word) > w.Width &&
			(w.at > hang || from >= w.Width) {
			b.WriteString("\n" + w.hang)
			w.at = hang
		} else {
			b.WriteString(blanks)
			w.at = from
		}
		w.spell(&b, word)
		text = text[len(next):]
	}
	if ends {
		b.WriteByte('\n')
		w.at = 0
	}
	w.write(b.String())
}

// spell writes a word. It breaks a word that does not fit on the line at the width of the terminal.
func (w *Text) spell(b *strings.Builder, word string) {
	if n := columns(word); w.at+n <= w.Width {
		b.WriteString(word)
		w.at += n
		return
	}
	painting := false // within an escape sequence
	for _, r := range word {
		painting = painting || r == '\x1b'
		if n := columnsOf(r); !painting {
			if w.at+n > w.Width {
				b.WriteString("\n" + w.hang)
				w.at = columns(w.hang)
			}
			w.at += n
		}
		b.WriteRune(r)
		painting = painting && r != 'm'
	}
}

// column matches the gap before the second column of a line: two blanks or more.
var column = pattern.New(`\S( {2,})\S`)

// hangOf returns the beginning of the further lines of a broken line: the indent of the line, or blanks up to its
// second column, and the trunk of a tree.
func hangOf(line string, width int) string {
	line = escapes().ReplaceAllString(line, "")
	var b strings.Builder
	text := strings.TrimLeftFunc(line, func(r rune) bool {
		switch r {
		case ' ', '└', '─':
			b.WriteByte(' ')
		case '├', '│':
			b.WriteRune('│')
		default:
			return false
		}
		return true
	})
	for len(text) >= 3 && slices.Contains([]string{"|- ", "`- ", "|  ", "   "}, text[:3]) { // the same in ASCII
		b.WriteString(strings.NewReplacer("-", " ", "`", " ").Replace(text[:3]))
		text = text[3:]
	}
	hang := b.String()
	if at := column().FindStringSubmatchIndex(text); at != nil {
		most := width / 2
		if strings.TrimSpace(hang) != "" || hang == "" {
			most = width / 3
		}
		if before := columns(text[:at[3]]); columns(hang)+before <= most {
			return hang + strings.Repeat(" ", before)
		}
	}
	if hang == "" {
		return hangs
	}
	return hang
}

// escapes matches the colors of Paint.
var escapes = pattern.New("\x1b\\[[0-9]*m")

// columns returns how many terminal columns a text takes.
func columns(s string) (n int) {
	if strings.Contains(s, "\x1b") {
		s = escapes().ReplaceAllString(s, "")
	}
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	switch {
	case r == '\t':
		return tabStop
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf), r >= 0x1160 && r <= 0x11ff: // parts of a Hangul syllable
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
