package orchestrator

import (
	"fmt"
	"strings"
)

// Plural formats a count with its noun: "1 agent", "2 agents".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ShellWord quotes a text so that a shell reads it as one word.
func ShellWord(text string) string {
	if text != "" && strings.Trim(text, "/._-+:@%,"+Alphanumeric) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Clip cuts a text from outside to 64 bytes and appends dots, so that it can be quoted in a message.
func Clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "..."
	}
	return s
}

// maxSaid is the maximum length of a command's output in an error, in bytes. The trace holds more.
const maxSaid = 300

// LastLines returns the end of a command's output, in whole lines if they are short enough.
func LastLines(output string) string {
	output = strings.TrimSpace(output)
	if len(output) > maxSaid {
		output = strings.ToValidUTF8(output[len(output)-maxSaid:], "") // the cut may split a character
		if _, whole, found := strings.Cut(output, "\n"); found {
			output = whole
		}
	}
	return output
}

// Alphanumeric holds the ASCII digits and letters.
const Alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
