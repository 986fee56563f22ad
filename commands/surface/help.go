package surface

import (
	"strings"

	"github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// usageText is how a command is called.
func usageText(d *commands.Definition) string {
	return strings.TrimSpace(d.CommandLine() + " [--flags] " + argsUsage(d))
}

func argsUsage(d *commands.Definition) string {
	var words []string
	for _, param := range positional(d) {
		word := strings.ToUpper(param.Name)
		if param.Arg == "rest" {
			word += "..."
		}
		if !param.Required {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// helpText is a card as help on the command line: without its title, and without the parameters, which stand below it
// as flags.
func helpText(body string) string {
	var b strings.Builder
	skipped := false
	for text := range strings.Lines(body) {
		title, isSection := strings.CutPrefix(text, "## ")
		if isSection {
			title = strings.TrimSpace(title)
			skipped = title == "Parameters"
		}
		switch {
		case skipped || strings.HasPrefix(text, "# ") || title == "Purpose":
		case isSection:
			b.WriteString(title + ":\n")
		default:
			b.WriteString(text)
		}
	}
	return strings.TrimSpace(b.String())
}

// section returns the text of one section of a card.
func section(body, title string) string {
	_, rest, _ := strings.Cut(body, "## "+title+"\n")
	text, _, _ := strings.Cut(rest, "\n## ")
	return strings.TrimSpace(text)
}

// noCommand answers a command line that names a group only, or nothing at all.
func noCommand(c *cli.Context, path string, names []string) error {
	if path == "" {
		return cli.ShowAppHelp(c)
	}
	return orchestrator.Errorf(orchestrator.InvalidParams, "mailroom %s is a group of commands", path).
		WithHint("Say which: %s", strings.Join(names, ", "))
}
