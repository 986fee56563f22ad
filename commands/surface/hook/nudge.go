package hook

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
)

// ourNudge matches a prompt by which Mailroom begins or continues a turn: a text from nudgeText, or a frame.
var ourNudge = pattern.New(`^mailroom: \d+ new messages? (?:from|for you, the agent) `)

// nudgeText returns the text with the number of new messages, or "" if there are none. The host shows this text to
// its user or treats it as the user's words, so it contains nothing that an agent wrote.
func nudgeText(n int) string {
	if n == 0 {
		return ""
	}
	return "mailroom: " + orchestrator.Plural(n, "new message") + " from other agents."
}
