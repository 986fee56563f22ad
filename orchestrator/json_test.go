package orchestrator

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"
)

// halves maps JSON texts with lone surrogates to the texts after Mended.
var halves = map[string]string{
	`"cut \ud83d"`:                   `"cut \ufffd"`,
	`"\uD83D"`:                       `"\ufffd"`,
	`"\ude00"`:                       `"\ufffd"`,
	`"\ude00\ud83d"`:                 `"\ufffd\ufffd"`,
	`"\ud83d\ud83d\ude00"`:           `"\ufffd\ud83d\ude00"`,
	`"\ud83d\ude00\ude00"`:           `"\ud83d\ude00\ufffd"`,
	`"\ud83d\\ude00"`:                `"\ufffd\\ude00"`,
	`"\\\ud83d"`:                     `"\\\ufffd"`,
	`"\ud83d","\ude00"`:              `"\ufffd","\ufffd"`,
	`{"\udbff":[{"a":["\ud800x"]}]}`: `{"\ufffd":[{"a":["\ufffdx"]}]}`,
	`"\n\"\ud83d😀\u00e9"`:            `"\n\"\ufffd😀\u00e9"`,
}

// wholes lists texts that must stay unchanged.
var wholes = []string{
	``, `null`, `"\ud83d\ude00"`, `"\\ud83d"`, `"\\\\ud83d \u0041"`, `"\u65e5\u672c\ud83D\uDE00\ufffd"`,
	`{"\ud83d\ude00":"\t\"\\"}`,
	`\`, `\u`, `\ud83`, `"\ud83x`, `\ud83dx`[:2],
}

func TestHalfPairs(t *testing.T) {
	t.Parallel()
	for text, mended := range halves {
		err := CheckPairs("log", []byte(text))
		if CodeOf(err) != InvalidParams ||
			!strings.HasPrefix(err.Error(), "log: the text contains half of a surrogate pair, which is not a valid character. The other half of \\u") {
			t.Errorf("%s: %v", text, err)
		}
		if got := Mended([]byte(text)); string(got) != mended {
			t.Errorf("%s is mended to %s; want %s", text, got, mended)
		}
	}
	for _, text := range wholes {
		if err := CheckPairs("log", []byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := Mended([]byte(text)); string(got) != text {
			t.Errorf("%s is mended to %s", text, got)
		}
	}
	whole, err := JSON(map[string]any{"payload": json.RawMessage(`{"log":"cut \ud83d"}`), "text": `\ud83d`})
	if err != nil || string(whole) != `{"payload":{"log":"cut \ufffd"},"text":"\\ud83d"}` {
		t.Errorf("%s, %v", whole, err)
	}
}

// FuzzMended checks that a mended text is JSON with the value that Go reads in the original, contains no lone
// surrogate, and has the same length.
func FuzzMended(f *testing.F) {
	for text := range halves {
		f.Add(text)
	}
	for _, text := range wholes {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			t.Skip()
		}
		var before, after any
		mended := Mended([]byte(text))
		if json.Unmarshal([]byte(text), &before) != nil {
			t.Skip() // a number out of range
		}
		if err := json.Unmarshal(mended, &after); err != nil || len(mended) != len(text) {
			t.Fatalf("%s: %s, %v", text, mended, err)
		}
		b, _ := JSON(before)
		a, _ := JSON(after)
		if !bytes.Equal(a, b) {
			t.Errorf("%s is read as %s, and mended as %s", text, b, a)
		}
		if half := firstHalf(mended); half != "" {
			t.Errorf("%s: %s still has %s", text, mended, half)
		}
	})
}

// firstHalf finds a lone surrogate in the way of a strict parser, unit by unit.
func firstHalf(text []byte) string {
	var high rune
	for i := 0; i < len(text); i++ {
		unit := rune(-1)
		if text[i] == '\\' {
			if unit = unitAt(text[i:]); unit >= 0 {
				i += escape - 1
			} else {
				i++
			}
		}
		low := unit >= 0xdc00 && unit < 0xe000
		switch {
		case high != 0 && !low, high == 0 && low:
			return string(text[max(0, i-2*escape):min(len(text), i+1)])
		case utf16.IsSurrogate(unit) && !low:
			high = unit
		default:
			high = 0
		}
	}
	return ""
}

// BenchmarkCheckPairs measures the cost of the check for a send.
func BenchmarkCheckPairs(b *testing.B) {
	for name, text := range map[string]string{
		"plain": `{"sender":"a","recipient":"b","message_type":"note","payload":{"n":12345,"text":"look at the build \"now\""}}`,
		"escaped": `{"sender":"a","recipient":"b","message_type":"note","payload":{"text":"` +
			strings.Repeat(`\u65e5\u672c\ud83d\ude00`, 10) + `"}}`,
		"mebibyte": `"` + strings.Repeat(`Line of a log, \"quoted\".\n`, 1<<20/27) + `"`,
	} {
		b.Run(name, func(b *testing.B) {
			raw := []byte(text)
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if CheckPairs("payload", raw) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}
