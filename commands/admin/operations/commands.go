package operations

import (
	"context"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"mailroom/commands"
	"mailroom/commands/terminal"
)

// CommandsParams names one command, or none to list all.
type CommandsParams struct {
	Name string `json:"name,omitempty" desc:"command to describe; default: list all commands" check:"max=128" arg:"1"`
}

// CommandsResult is the list, or one command in full.
type CommandsResult struct {
	Commands []CommandSummary `json:"commands,omitempty"`
	Command  *CommandDetail   `json:"command,omitempty"`
}

// CommandSummary is one line of the list.
type CommandSummary struct {
	Name        string `json:"name"`
	Use         string `json:"use"`
	Description string `json:"description"`
}

// CommandDetail is a command's card and the schema of its parameters.
type CommandDetail struct {
	*commands.Card
	Name       string             `json:"name"`
	Vocabulary string             `json:"vocabulary"`
	Use        string             `json:"use"`
	Parameters *jsonschema.Schema `json:"parameters"`
	Text       string             `json:"text"`
}

var commandsCommand = commands.Define(vocabulary, "commands", listCommands).
	With(commands.Traits{NoDatabase: true}).Knowing("name", knownCommands)

// listCommands lists all commands, or describes one.
func listCommands(_ context.Context, env commands.Env, p CommandsParams) (CommandsResult, error) {
	if p.Name != "" {
		d, err := env.Catalogue.Lookup(p.Name)
		if err != nil {
			return CommandsResult{}, err
		}
		card := d.Card()
		return CommandsResult{Command: &CommandDetail{
			Card: card, Name: d.Name, Vocabulary: d.Vocabulary().Name, Use: d.CommandLine(), Parameters: d.Schema(),
			Text: card.Body,
		}}, nil
	}
	var r CommandsResult
	for _, d := range env.Catalogue.All() {
		r.Commands = append(r.Commands, CommandSummary{Name: d.Name, Use: d.CommandLine(), Description: d.Summary()})
	}
	return r, nil
}

// Text writes the list as a table, or the text of the card.
func (r CommandsResult) Text(w *terminal.Text) {
	if r.Command != nil {
		w.Block("", "", r.Command.Text)
		w.Printf("\nrights: %s %[2]s reads: %[3]s %[2]s writes: %[4]s\n", r.Command.Rights, w.Sign("·"),
			orNothing(r.Command.Tables.Read), orNothing(r.Command.Tables.Write))
		if records := r.Command.Tables.Records; len(records) > 0 {
			w.Printf("The command also uses the tables of other records that are %s, such as questions and threads.\n",
				strings.Join(records, " or "))
		}
		return
	}
	terminal.TableOf(w, []string{"COMMAND", "WHAT IT DOES"}, r.Commands, func(c *CommandSummary) []string {
		return []string{c.Use, c.Description}
	})
}

func orNothing(tables []string) string {
	if len(tables) == 0 {
		return "nothing"
	}
	return strings.Join(tables, ", ")
}

// knownCommands returns the commands, as completions for a shell.
func knownCommands(_ context.Context, env commands.Env) ([]commands.Known, error) {
	var list []commands.Known
	for _, d := range env.Catalogue.All() {
		list = append(list, commands.Known{Value: d.Name, About: d.Summary()})
	}
	return list, nil
}
