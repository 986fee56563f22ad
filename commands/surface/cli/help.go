package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/terminal"
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

// helpText returns the card of a command as help for the command line. It omits the title, and the parameters, which
// the help lists as flags.
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

// helpGroup is a part of the help of the whole program.
type helpGroup struct {
	title    string
	names    []string
	describe bool // list each command on its own line, with its description
}

// groups lists the commands for the help of the whole program, after the commands that start a host. The last group
// contains the commands that no other group names.
var groups = []helpGroup{
	{"Talk", []string{"send", "inbox", "read", "reply", "wait", "ask", "alert", "acknowledge", "cancel", "thread"}, true},
	{"Look", []string{"list", "show", "tail", "why", "trace", "now", "room", "status", "stats", "messages", "sql",
		"console"}, true},
	{"Agents", []string{"connect", "agent", "group", "signal"}, true},
	{"Run", []string{"init", "serve", "service", "deliver_all", "poll", "schedule", "setting", "demo"}, false},
	{"Care", []string{"doctor", "dead_letters", "backup", "restore", "migrate", "clear_old", "clear_traces",
		"checkpoint", "recount", "hold", "trust"}, false},
	{"Programs", nil, false},
}

// frontPage prints the help of the whole program, which fits on one screen.
func frontPage(p *Program, w *terminal.Text) error {
	w.Printf("%s - messages between agents, stored in one SQL table\n", w.Paint(terminal.Bold, "mailroom"))
	helpPart(w, "Usage", "  mailroom COMMAND [arguments] [--flags]\n  mailroom help COMMAND\n")
	all := p.below(nil)
	taken := map[string]bool{}
	for _, g := range append([]helpGroup{{"Start", names(startCommands()), true}}, groups...) {
		var members []command
		for _, name := range g.names {
			if i := slices.IndexFunc(all, func(c command) bool { return c.name == name }); i >= 0 {
				members, taken[name] = append(members, all[i]), true
			}
		}
		if g.names == nil {
			members = slices.DeleteFunc(slices.Clone(all), func(c command) bool { return taken[c.name] })
		}
		if g.describe {
			helpPart(w, g.title,
				helpColumns(members, func(c command) string { return c.name + "\t" + p.about(c) }))
		} else if len(members) > 0 {
			helpPart(w, g.title, wrapped(names(members), 78))
		}
	}
	var flags []string
	for _, f := range globalFlags() {
		flags = append(flags, "--"+f.Names()[0])
	}
	helpPart(w, "Flags that every command accepts", wrapped(flags, 78)+"  For descriptions, run `mailroom help COMMAND`.\n")
	return notWritten(w.Err())
}

// wrapped formats words as lines, with commas between the words.
func wrapped(words []string, width int) string {
	var b strings.Builder
	line := "  "
	for i, word := range words {
		if i < len(words)-1 {
			word += ","
		}
		if len(line)+len(word) > width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = "  "
		}
		line += word + " "
	}
	return b.String() + strings.TrimRight(line, " ") + "\n"
}

// help prints the help of a command, a group or the whole program.
func (p *Program) help(l *line) error {
	c := l.called
	if c == nil {
		return frontPage(p, p.people(p.Out, p.OutTerminal))
	}
	about, text := c.Usage, c.Description
	if d := l.definition; d != nil {
		about, text = cmp.Or(about, d.Summary()), helpText(d.Help())
	}
	usage := l.name() + " " + strings.TrimSpace("[--flags] "+c.ArgsUsage)
	if len(l.next) > 0 {
		usage = l.name() + " COMMAND [--flags] [arguments]"
	}
	w := p.people(p.Out, p.OutTerminal)
	w.Printf("%s - %s\n", w.Paint(terminal.Bold, l.name()), about)
	helpPart(w, "Usage", "  "+usage+"\n")
	if text != "" {
		w.Printf("\n")
		helpProse(w, text)
	}
	helpPart(w, "Commands", helpColumns(l.next, func(c command) string { return c.name + "\t" + p.about(c) }))
	helpPart(w, "Flags", helpColumns(c.Flags, urfave.Flag.String))
	helpPart(w, "Global flags, anywhere on the line", helpColumns(globalFlags(), urfave.Flag.String))
	return notWritten(w.Err())
}

// helpProse prints the text of a help. On a terminal, it rewraps paragraphs and list items. It leaves examples
// unchanged, so that they can be copied.
func helpProse(w *terminal.Text, text string) {
	var part string // a paragraph or an item, as far as it has been read
	flush := func() {
		indent := ""
		if strings.HasPrefix(part, "- ") {
			indent = "  "
		}
		if part != "" && w.Width > 0 {
			part = strings.Join(terminal.Lines(part, w.Width-len(indent)), "\n"+indent)
		}
		if part != "" {
			w.Whole(terminal.Painted(part + "\n"))
		}
		part = ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "    "):
			flush()
			w.Whole(terminal.Painted(line + "\n"))
		case part == "" || w.Width == 0 || strings.HasPrefix(line, "- "):
			flush()
			part = line
		default:
			part += " " + strings.TrimLeft(line, " ")
		}
	}
	flush()
}

// helpPart prints a titled part of a help, or nothing if text is empty.
func helpPart(w *terminal.Text, title, text string) {
	if text != "" {
		w.Printf("\n%s\n%s", w.Paint(terminal.Bold, title+":"), terminal.Painted(text))
	}
}

// helpColumns formats lines of two columns; line returns the columns separated by a tab.
func helpColumns[T any](list []T, line func(T) string) string {
	var b strings.Builder
	columns := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, item := range list {
		fmt.Fprintln(columns, "  "+line(item))
	}
	columns.Flush()
	return b.String()
}
