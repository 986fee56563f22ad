package commands

import (
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/nearest"
)

// Catalogue is the ordered list of all commands. Once something runs it is immutable, and safe for concurrent use.
type Catalogue struct {
	list   []*Definition
	byName map[string]*Definition

	// Guard, unless it is nil, is called before each run of a command on a database, and release after it: an error of
	// release fails the command. Tests look with it at which tables a command touches.
	Guard func(d *Definition, l *ledger.Ledger) (release func() error)
}

// NewCatalogue collects definitions in the order in which they are shown. No two of them may have one name, or one
// place on the command line, and none may stand where others have their group: TestCommandsDoNotClash looks.
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

// Lookup finds a command by name, with '-' or '_', in any case, with or without "orchestrator." in front. Error:
// unknown_command, with the near names.
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

// foldName brings a name into the one form in which names are compared.
func foldName(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(name, "-", "_"), " ", "_"))
}
