package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
)

func argsUsage(d *commands.Definition) string {
	var words []string
	for _, param := range d.Positional() {
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

// help shows how a command, a group or the whole program is called.
func (p *Program) help(l *line) error {
	c := l.called
	if c == nil {
		c = &urfave.Command{
			Usage:     "messages between agents, around one SQLite table",
			UsageText: "mailroom COMMAND [--flags] [arguments]\nmailroom help COMMAND",
		}
	}
	usage, text := c.UsageText, c.Description
	if l.definition != nil {
		text = helpText(l.definition.Help())
	}
	if usage == "" {
		usage = l.name() + " " + strings.TrimSpace("[--flags] "+c.ArgsUsage)
		if len(l.next) > 0 {
			usage = l.name() + " COMMAND [--flags] [arguments]"
		}
	}
	w := p.people(p.Out, p.OutTerminal)
	w.Printf("%s - %s\n", w.Paint(commands.Bold, l.name()), c.Usage)
	helpPart(w, "Usage", "  "+strings.ReplaceAll(usage, "\n", "\n  ")+"\n")
	if text != "" {
		w.Printf("\n%s\n", commands.Painted(text))
	}
	helpPart(w, "Commands", helpColumns(l.next, func(c command) string { return c.name + "\t" + p.called(c).Usage }))
	helpPart(w, "Flags", helpColumns(c.Flags, urfave.Flag.String))
	helpPart(w, "Global flags, anywhere on the line", helpColumns(globalFlags(), urfave.Flag.String))
	return notWritten(w.Err())
}

// helpPart writes a titled part of a help; nothing when there is nothing in it.
func helpPart(w *commands.Text, title, text string) {
	if text != "" {
		w.Printf("\n%s\n%s", w.Paint(commands.Bold, title+":"), commands.Painted(text))
	}
}

// helpColumns lays out lines of two columns, a tab between them.
func helpColumns[T any](list []T, line func(T) string) string {
	var b strings.Builder
	columns := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, item := range list {
		fmt.Fprintln(columns, "  "+line(item))
	}
	columns.Flush()
	return b.String()
}
