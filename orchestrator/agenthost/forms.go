package agenthost

import (
	"encoding/json"
	"slices"

	"mailroom/orchestrator/hosts"
)

// Line holds the fields of a transcript line that are used.
type Line struct {
	ID      string          `json:"id"` // Gemini CLI writes an entry again, with the same ID, when it has more of it
	Type    string          `json:"type"`
	Written string          `json:"timestamp"`
	Content json.RawMessage `json:"content"`
	Message struct {
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	Subagent string `json:"agentId"` // the subagent in which it happened
	Data     struct {
		Model string `json:"model"`
	} `json:"data"`
	Payload struct {
		Type string `json:"type"`
		Role string `json:"role"`
	} `json:"payload"`
}

// context returns text for the model in the form that most hosts accept.
func context(event, text string) any {
	return map[string]string{"hookEventName": event, "additionalContext": text}
}

// blocksAt returns the form of a host that continues a turn only if its end, the named event, is blocked.
func blocksAt(end string) func(event, text string) any {
	return func(event, text string) any {
		if event == end {
			return map[string]string{"decision": "block", "reason": text}
		}
		return map[string]any{"hookSpecificOutput": context(event, text)}
	}
}

// claudesHooks are the hooks of hosts that have Claude Code's events.
var claudesHooks = []Entry{
	{Event: "SessionStart", Kind: hosts.Started, Timeout: 10}, {Event: "UserPromptSubmit", Kind: hosts.Prompted, Timeout: 10},
	{Event: "PostToolUse", Kind: hosts.Worked, Timeout: 10}, {Event: "PostToolUseFailure", Kind: hosts.Worked, Timeout: 10},
	{Event: "Stop", Kind: hosts.Stopped, Timeout: 10}, {Event: "SessionEnd", Kind: hosts.Ended, Timeout: 10},
}

// inProject returns the path to a project's entry in a host's own file: the names in above, the project's folder,
// and the names in below. For all folders of the user there is no entry.
func inProject(above, below []string) func(p *Place) []string {
	return func(p *Place) []string {
		if p.User {
			return nil
		}
		return slices.Concat(above, []string{p.Folder}, below)
	}
}
