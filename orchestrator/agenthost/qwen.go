package agenthost

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/pattern"
)

// qwen describes Qwen Code, whose hooks have Claude Code's forms.
var qwen = Host{
	Name:     "qwen",
	programs: []string{"qwen"},
	packages: []string{"@qwen-code/qwen-code"},
	variable: "QWEN_CODE_SESSION_ID",
	clients:  []string{"qwen-cli-mcp-client"},

	Connection: Connection{
		Asks: "Qwen Code might ask whether to trust the folder, and then whether to approve its MCP server.",
		Files: []File{{
			Paths: func(p *Place) []string { return []string{qwenSettings(p)} }, Format: CommentedJSON,
			Servers: "mcpServers", Server: geminiServer, Optional: []string{"trust"},
			Words: qwenTools,
			Hooks: claudesHooks,
		}},
		Off: []Setting{{
			Paths: func(p *Place) []string {
				return []string{qwenSettings(&Place{Home: p.Home, User: true}), qwenSettings(p)}
			},
			Names: func(*Place) []string { return []string{"disableAllHooks"} }, Is: true, Says: "hooks are disabled",
		}},
		NotAtHome: true,
		Replaces:  pattern.New(`\$(\w|\{[^}])`),
		Calls:     CallTime{Key: "timeout", Unit: time.Millisecond, Unsaid: time.Minute},
	},
	Sessions: Sessions{Inbox: "QWEN_CODE_MESSAGING_SOCKET", ToInbox: toQwen},
	Hooks: Hooks{
		Prompts: []Prompt{{Begins: ""}}, // follows each tool call; only the next request gets its answer
		OwnKind: hosts.Nudged,           // a text that puts off the end of a turn is a prompt, too
		Shows:   true,                   // as an error of the hook
		Forgets: true,
		Form:    blocksAt("Stop"),
	},
	Transcript: Transcript{
		Speaks: func(line *Line) bool { return line.Type == "assistant" },
	},
}

// qwenTools lists relay's tools. The model finds the tools of other vocabularies by a search.
var qwenTools = func() (words []Word) {
	for _, tool := range []string{"ask_question", "get_message", "get_messages", "get_response", "get_sent_messages",
		"list_groups", "release", "send_alert", "send_message"} {
		words = append(words, Word{Text: "mcp__mailroom__" + tool, Path: []string{"tools", "visible"}})
	}
	return words
}()

// toQwen returns the data that gives a prompt to the inbox of a session in a terminal. Source:
// docs/features/cross-session-protocol.md of Qwen Code's package.
func toQwen(session, prompt string) (lines []byte) {
	auth := struct {
		Version int    `json:"msgV"`
		Type    string `json:"type"`
		Token   string `json:"token"`
	}{1, "auth", os.Getenv("QWEN_CODE_MESSAGING_TOKEN")}
	type content struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	message := struct {
		Version  int     `json:"msgV"`
		ID       string  `json:"msgId"`
		Type     string  `json:"type"`
		From     string  `json:"fromName"`
		To       string  `json:"toSessionId"`
		Priority string  `json:"priority"`
		Message  content `json:"message"`
	}{1, rand.Text(), "user", "mailroom", session, "next", content{"user", prompt}}
	for _, line := range []any{auth, message} {
		text, err := json.Marshal(line)
		if err != nil {
			panic(err) // contains only strings and numbers
		}
		lines = append(append(lines, text...), '\n')
	}
	return lines
}

// qwenSettings returns the path of the settings.
func qwenSettings(p *Place) string {
	folder := filepath.Join(p.Folder, ".qwen")
	if p.User {
		folder = cmp.Or(os.Getenv("QWEN_HOME"), filepath.Join(p.Home, ".qwen"))
	}
	return filepath.Join(folder, "settings.json")
}
