package hook

import (
	"regexp"
	"strings"

	"mailroom/orchestrator/hosts"
)

// gemini is Gemini CLI. What its model is to be shown at the end of a turn it shows to the user as a warning, and then gives it to
// the model as if the user had said it. So there it is told only how many messages there are, and they come with the BeforeAgent
// that follows.
var gemini = Host{
	Name: "gemini",
	Events: map[string]hosts.Kind{
		"SessionStart": hosts.Started, "BeforeAgent": hosts.Prompted, "AfterTool": hosts.Worked, "AfterAgent": hosts.Stopped,
		"SessionEnd": hosts.Ended,
	},
	programs: []string{"gemini", "gemini.js"},
	nothing:  "{}\n",
	nudges:   []nudge{{ourNudge, hosts.Nudged}, {regexp.MustCompile(`^User steering update`), hosts.Woken}},
	shows:    true,
	late:     true,
	form:     blocksAt("AfterAgent"),
	escape:   strings.NewReplacer("<", "&lt;", ">", "&gt;"),
	speaks:   func(line *entry) bool { return line.Type == "gemini" },
}
