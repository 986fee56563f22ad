package remote

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// plain is a writer that passes on text, line ends, tabs, and the SGR sequences that set the color and weight of
// text. It removes everything else that controls a terminal, because the other side may be malicious.
type plain struct {
	out  io.Writer
	held []byte // an incomplete sequence or character
}

// maxSequence is the maximum length of a sequence, in bytes.
const maxSequence = 32

// Write implements io.Writer. It accepts all of b unless writing to out fails.
func (p *plain) Write(b []byte) (int, error) {
	text := append(p.held, b...)
	p.held = nil
	var kept bytes.Buffer
	for len(text) > 0 {
		n, keep := next(text)
		if n == 0 { // it may continue in the next write
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

// next returns the length of the first character or sequence, and whether to keep it. n is 0 if the end is missing.
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

// sequence returns the length of a sequence that begins with ESC, and whether to keep it. n is 0 if the end is
// missing.
func sequence(text []byte) (n int, keep bool) {
	if len(text) == 1 {
		return 0, false
	}
	if text[1] != '[' {
		return 1, false // the next byte is ordinary text
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

// plainText returns the part of a text that plain passes on.
func plainText(text string) string {
	var b bytes.Buffer
	(&plain{out: &b}).Write([]byte(text))
	return b.String()
}
