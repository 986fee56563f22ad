package commands

import (
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/nearest"
)

// Catalogue is the ordered list of all commands. It must not change while commands run, and is then safe for
// concurrent use.
type Catalogue struct {
	list   []*Definition
	byName map[string]*Definition

	// Guard, unless nil, is called before each run of a command on a database. The function that it returns is called
	// after the run, and an error from that function fails the command. Tests use Guard to check which tables a
	// command uses.
	Guard func(d *Definition, l *ledger.Ledger) (release func() error)
}

// NewCatalogue returns a catalogue of the definitions, in the order in which they are shown. No two definitions may
// have the same name or the same command-line path, and no path may equal the group of other commands.
// TestCommandsDoNotClash checks these rules.
func NewCatalogue(vocabularies ...[]*Definition) *Catalogue {
	c := &Catalogue{list: slices.Concat(vocabularies...), byName: make(map[string]*Definition, 128)}
	for _, d := range c.list {
		c.byName[foldName(d.Name)] = d
	}
	return c
}

// All returns the commands in order.
func (c *Catalogue) All() []*Definition { return slices.Clone(c.list) }

// Vocabularies returns the names of the vocabularies in order.
func (c *Catalogue) Vocabularies() (names []string) {
	for _, d := range c.list {
		if name := d.vocabulary.Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Lookup finds a command by name. The name may use '-' or '_', any case, and the prefix "orchestrator.". An unknown
// name is the error unknown_command, with similar names.
func (c *Catalogue) Lookup(name string) (*Definition, error) {
	if d := c.byName[foldName(strings.TrimPrefix(strings.ToLower(name), "orchestrator."))]; d != nil {
		return d, nil
	}
	names := make([]string, len(c.list))
	for i, d := range c.list {
		names[i] = d.Name
	}
	e := orchestrator.Errorf(orchestrator.UnknownCommand, "unknown command %q", orchestrator.Clip(name))
	near := nearest.Nearest(name, names)
	if len(near) == 0 {
		return nil, e.WithHint("To list the commands, run `mailroom commands`")
	}
	e.Details = map[string]any{"near": near}
	return nil, e.WithHint("Did you mean %s?", strings.Join(near, " or "))
}

// foldName returns the form in which names are compared.
func foldName(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(name, "-", "_"), " ", "_"))
}
