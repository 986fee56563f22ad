package orchestrator

import (
	"fmt"
	"strings"
)

// Plural returns a number of things in words: "1 agent", "2 agents".
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

// Clip shortens a text that somebody else wrote to 64 bytes and dots, to be quoted in a message.
func Clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "..."
	}
	return s
}

// maxSaid bounds what an error holds of a command's last output, in bytes. The trace has more.
const maxSaid = 300

// LastLines returns the end of what a command printed, in whole lines if they are short enough.
func LastLines(output string) string {
	output = strings.TrimSpace(output)
	if len(output) > maxSaid {
		output = strings.ToValidUTF8(output[len(output)-maxSaid:], "") // the cut may go through a character
		if _, whole, found := strings.Cut(output, "\n"); found {
			output = whole
		}
	}
	return output
}

// Alphanumeric are the letters and digits of ASCII.
const Alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
