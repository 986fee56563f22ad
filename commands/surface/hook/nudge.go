package hook

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
)

// ourNudge tells a prompt by which Mailroom begins a turn, or goes on with one: one that nudgeText wrote, or a frame.
var ourNudge = pattern.New(`^mailroom: \d+ new messages? (?:from|for you, the agent) `)

// nudgeText says how many new messages there are, where the host shows it to its user, or takes it for what its user
// says: nothing that an agent wrote. It is "" if there are none.
func nudgeText(n int) string {
	if n == 0 {
		return ""
	}
	return "mailroom: " + orchestrator.Plural(n, "new message") + " from other agents."
}
