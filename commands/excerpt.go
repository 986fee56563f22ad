package commands

import (
	"bytes"
	"encoding/json"
	"strings"

	"mailroom/orchestrator"
)

// MaxExcerpt is how many characters of a message a list shows.
const MaxExcerpt = 200

// Excerpt finds text in a message, without regard to case, and returns the part of the message around it. For "", it
// returns the beginning of the message. It also reports whether the message contains text.
func Excerpt(m *orchestrator.Message, text string) (around string, says bool) {
	content := ContentOf(m)
	wanted := []rune(strings.ToLower(text))
	for _, said := range []string{content.Text, spelledOut(content.Data), m.Summary, m.Context} {
		lower := strings.ToLower(said)
		at := strings.Index(lower, string(wanted))
		if at < 0 || said == "" && text == "" {
			continue
		}
		runes := []rune(said) // as many runes as lower has
		from := max(0, len([]rune(lower[:at]))-MaxExcerpt/4)
		return string(runes[from:min(len(runes), from+max(MaxExcerpt, len(wanted)))]), true
	}
	return "", text == ""
}

// spelledOut returns JSON without escapes, because escapes hide letters from a search.
func spelledOut(data json.RawMessage) string {
	var value any
	if !bytes.ContainsRune(data, '\\') || json.Unmarshal(data, &value) != nil {
		return string(data)
	}
	plain, err := orchestrator.JSON(value)
	if err != nil {
		return string(data)
	}
	return string(plain)
}
