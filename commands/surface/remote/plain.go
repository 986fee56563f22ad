package remote

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// plain passes on text, line ends, tabs, and the sequences by which a terminal changes the colour and the weight of text
// (SGR). All else that steers a terminal is left out: the other side may lie.
type plain struct {
	out  io.Writer
	held []byte // the beginning of a sequence, or of a character, that has not ended
}

// maxSequence bounds the bytes of a sequence.
const maxSequence = 32

// Write implements io.Writer. It takes all of b unless out fails.
func (p *plain) Write(b []byte) (int, error) {
	text := append(p.held, b...)
	p.held = nil
	var kept bytes.Buffer
	for len(text) > 0 {
		n, keep := next(text)
		if n == 0 { // it may go on
			p.held = bytes.Clone(text)
			break
		}
		if keep {
			kept.Write(text[:n])
		}
		text = text[n:]
	}
	if _, err := p.out.Write(kept.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}

// next returns the length of the first character or sequence, and whether it is passed on; 0 if its end is missing.
func next(text []byte) (n int, keep bool) {
	switch c := text[0]; {
	case c == '\n' || c == '\t' || c >= 0x20 && c < 0x7f:
		return 1, true
	case c == 0x1b:
		return sequence(text)
	case c < 0x80:
		return 1, false
	case !utf8.FullRune(text):
		return 0, false
	}
	r, n := utf8.DecodeRune(text)
	return n, r >= 0xa0 && (r != utf8.RuneError || n > 1)
}

// sequence is next for what begins with ESC.
func sequence(text []byte) (n int, keep bool) {
	if len(text) == 1 {
		return 0, false
	}
	if text[1] != '[' {
		return 1, false // what follows is text
	}
	for i := 2; i < len(text); i++ {
		switch c := text[i]; {
		case c == 'm':
			return i + 1, true
		case i >= maxSequence || c < '0' || c > ';':
			return 1, false
		}
	}
	return 0, false
}

// plainText is what plain passes on of a text.
func plainText(text string) string {
	var b bytes.Buffer
	(&plain{out: &b}).Write([]byte(text))
	return b.String()
}
