package agenthost

import (
	"encoding/json"
	"slices"

	"mailroom/orchestrator/hosts"
)

// Line is what is read of a line of a transcript.
type Line struct {
	ID      string          `json:"id"` // Gemini CLI writes an entry anew, under its id, when more of it is known
	Type    string          `json:"type"`
	Written string          `json:"timestamp"`
	Content json.RawMessage `json:"content"`
	Message struct {
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	Subagent string `json:"agentId"` // in which it happened
	Data     struct {
		Model string `json:"model"`
	} `json:"data"`
	Payload struct {
		Type string `json:"type"`
		Role string `json:"role"`
	} `json:"payload"`
}

// context is the form in which most hosts take text for their model.
func context(event, text string) any {
	return map[string]string{"hookEventName": event, "additionalContext": text}
}

// blocksAt is the form of a host that goes on with a turn only if its end, the event that is named, is blocked.
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

// inProject returns the way to what a host's own file has of a project, by its folder: above are the names on the way to
// the folder, below those after it. In all folders of the user there is none.
func inProject(above, below []string) func(p *Place) []string {
	return func(p *Place) []string {
		if p.User {
			return nil
		}
		return slices.Concat(above, []string{p.Folder}, below)
	}
}
