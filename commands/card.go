package commands

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Card is a command's Markdown card: its front matter, in the form of document 004, and its text.
type Card struct {
	Command       string   `yaml:"command" json:"command"`
	Agent         string   `yaml:"agent" json:"agent"`
	Action        string   `yaml:"action" json:"action"`
	Description   string   `yaml:"description" json:"description"`
	Rights        string   `yaml:"rights" json:"rights"` // self or admin: who may run it over MCP and HTTP
	Tables        Tables   `yaml:"tables" json:"tables"`
	Answers       string   `yaml:"answers,omitempty" json:"answers,omitempty"` // json if programs read the answers
	RequiredTools []string `yaml:"required_tools" json:"required_tools"`
	CFRCompliance []any    `yaml:"cfr_compliance" json:"cfr_compliance"`

	Body string `yaml:"-" json:"-"` // Markdown
}

// OnlyReads reports whether the command declares no table that it writes.
func (c *Card) OnlyReads() bool { return len(c.Tables.Write) == 0 }

// Tables lists the tables that a command may use. Every command may also use agents, removed_agents, groups,
// group_members, settings, command_trace and message_trace, and the tables of counts derived from messages and
// traces: message_count and traffic. A test runs every command under SQLite's authorizer and checks the declared
// tables.
type Tables struct {
	Read  []string `yaml:"read" json:"read"`
	Write []string `yaml:"write" json:"write"`

	// Records lists the reasons for which the command uses the tables of every kind of record (those named by the
	// ledger's Parts): "due" for records that have a due time, "old" for records that retention deletes, "removed"
	// for records that end when an agent is removed.
	Records []string `yaml:"records,omitempty" json:"records,omitempty"`
}

const fence = "---\n"

// parseCard reads and checks a card.
func parseCard(text string) (*Card, error) {
	rest, opens := strings.CutPrefix(text, fence)
	front, body, ends := strings.Cut(rest, "\n"+fence)
	if !opens || !ends {
		return nil, fmt.Errorf("the front matter is missing or not closed")
	}
	card := &Card{Body: strings.TrimSpace(body)}
	decoder := yaml.NewDecoder(strings.NewReader(front))
	decoder.KnownFields(true)
	if err := decoder.Decode(card); err != nil {
		return nil, fmt.Errorf("front matter: %w", err)
	}
	switch {
	case card.Agent == "" || card.Action == "" || card.Description == "":
		return nil, fmt.Errorf("front matter: agent, action, and description are required")
	case !slices.Contains([]string{"self", "admin"}, card.Rights):
		return nil, fmt.Errorf("front matter: rights must be self or admin, but is %q", card.Rights)
	case slices.ContainsFunc(card.Tables.Records,
		func(word string) bool { return !slices.Contains([]string{"due", "old", "removed"}, word) }):
		return nil, fmt.Errorf("front matter: records may contain only due, old, and removed, but contains %q", card.Tables.Records)
	case card.Answers != "" && card.Answers != "json":
		return nil, fmt.Errorf("front matter: answers must be json or left out, but is %q", card.Answers)
	case card.Body == "":
		return nil, fmt.Errorf("the text below the front matter is missing")
	}
	return card, nil
}

// Summary returns the one-line description of the command.
func (d *Definition) Summary() string { return d.Card().Description }

// Help returns the text of the card below its front matter, in Markdown.
func (d *Definition) Help() string { return d.Card().Body }
