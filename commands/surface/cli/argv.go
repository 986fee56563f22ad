package cli

import (
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"mailroom/orchestrator"
	"mailroom/orchestrator/nearest"
)

// line is a command line that has been read. People write flags, arguments and global flags in any order, and "-5" can
// be the value of a flag; the flag parser wants global flags, the command, its flags, its arguments.
type line struct {
	program string
	filled  func(*urfave.Command) *urfave.Command // gives a command its flags
	flagsOf map[string]bool                       // global flags, and whether each takes a value
	root    []*urfave.Command
	next    []*urfave.Command // commands that may come next
	chain   []*urfave.Command // groups, and the command
	current *urfave.Command   // last of the chain
	own     map[string]bool   // flags of current, and whether each takes a value

	globals, path, flags, arguments []string
	named                           []string // flags given to the command, without dashes
	waiting                         string   // the last flag, when its value is missing
}

// readArgs sorts the words behind the program's name. What follows "--" are arguments.
func (p *Program) readArgs(app *urfave.App, program string, words []string) *line {
	l := &line{program: program, filled: p.filled, flagsOf: p.global, root: app.Commands, next: app.Commands}
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "--":
			l.arguments = append(l.arguments, words[i+1:]...)
			return l
		case len(word) > 1 && word[0] == '-':
			i += l.flag(word, words[i+1:])
		default:
			l.word(word)
		}
	}
	return l
}

// argv is the line in the flag parser's order.
func (l *line) argv() []string {
	out := append([]string{l.program}, l.globals...)
	out = append(out, l.path...)
	out = append(out, l.flags...)
	if len(l.arguments) > 0 {
		out = append(append(out, "--"), l.arguments...)
	}
	return out
}

// only leaves nothing in the tree but the way to the command, since the flag parser sets up all that it is given.
func (l *line) only(app *urfave.App) {
	app.Commands = nil
	for i, c := range l.chain {
		if i == 0 {
			app.Commands = []*urfave.Command{c}
		} else {
			l.chain[i-1].Subcommands = []*urfave.Command{c}
		}
	}
}

// name is how the command is called.
func (l *line) name() string { return strings.Join(append([]string{"mailroom"}, l.path...), " ") }

// word takes a word that is no flag: the next part of the command's name, or an argument.
func (l *line) word(word string) {
	if len(l.arguments) == 0 {
		for _, c := range l.next {
			if sameName(c.Name, word) {
				l.path, l.chain, l.current, l.next = append(l.path, c.Name), append(l.chain, c), c, c.Subcommands
				l.own = flagTable(l.filled(c).Flags)
				return
			}
		}
		if word == "help" && l.current == nil && !l.has("help", "h") {
			l.globals = append(l.globals, "--help")
			return
		}
	}
	l.arguments = append(l.arguments, word)
}

// sameName compares names of commands: in any case, with '-' or '_'.
func sameName(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, "-", "_"), strings.ReplaceAll(b, "-", "_"))
}

// flag takes a flag, and returns how many of the following words are its value.
func (l *line) flag(word string, rest []string) int {
	name, _, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
	takes, own := l.own[name]
	global := false
	if !own {
		takes, global = l.flagsOf[name]
	}
	if !own && !global && l.current == nil {
		takes = l.takesValue(l.root, name) // its command is named further on
	}
	words := []string{word}
	if takes && !joined {
		if len(rest) == 0 {
			l.waiting = name
		} else {
			words = append(words, rest[0])
		}
	}
	if global {
		l.globals = append(l.globals, words...)
	} else {
		l.flags = append(l.flags, words...)
		l.named = append(l.named, name)
	}
	return len(words) - 1
}

// global returns the value of a global flag, "" if it is not given.
func (l *line) global(name string) (value string) {
	for i, word := range l.globals {
		key, joined, ok := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case !strings.HasPrefix(word, "-") || key != name:
		case ok:
			value = joined
		case i+1 < len(l.globals):
			value = l.globals[i+1]
		}
	}
	return value
}

// has reports whether a global switch is given under one of its names.
func (l *line) has(names ...string) bool {
	return slices.ContainsFunc(l.globals, func(word string) bool {
		return strings.HasPrefix(word, "-") && slices.Contains(names, strings.TrimLeft(word, "-"))
	})
}

// checkFlags refuses flags that the command does not have, naming the near ones.
func (l *line) checkFlags() error {
	for _, name := range l.named {
		if _, ok := l.own[name]; ok {
			continue
		}
		var names []string
		for known := range l.own {
			names = append(names, known)
		}
		e := orchestrator.Errorf(orchestrator.InvalidParams, "%s has no flag --%s", l.name(), name)
		if near := nearest.Nearest(name, names); len(near) > 0 {
			return e.WithHint("Did you mean --%s?", strings.Join(near, " or --"))
		}
		return e.WithHint("`%s --help` lists them", l.name())
	}
	if l.waiting != "" {
		return orchestrator.Errorf(orchestrator.InvalidParams, "--%s needs a value", l.waiting)
	}
	return nil
}

// checkCommand refuses a command that does not exist, naming the near ones.
func (l *line) checkCommand() error {
	if len(l.arguments) == 0 || (l.current != nil && len(l.current.Subcommands) == 0) {
		return nil
	}
	names := make([]string, len(l.next))
	for i, c := range l.next {
		names[i] = c.Name
	}
	word := l.arguments[0]
	if len(word) > 64 {
		word = strings.ToValidUTF8(word[:64], "") + "..."
	}
	e := orchestrator.Errorf(orchestrator.UnknownCommand, "there is no command %q", l.name()+" "+word)
	if near := nearest.Nearest(word, names); len(near) > 0 {
		e.Details = map[string]any{"near": near}
		return e.WithHint("Did you mean %s?", strings.Join(near, " or "))
	}
	return e.WithHint("`%s --help` lists them", l.name())
}

// flagTable says of each flag whether it takes a value.
func flagTable(flags []urfave.Flag) map[string]bool {
	table := map[string]bool{}
	for _, f := range flags {
		_, isSwitch := f.(*urfave.BoolFlag)
		for _, name := range f.Names() {
			table[name] = !isSwitch
		}
	}
	return table
}

// takesValue reports whether a flag takes a value in any of the commands.
func (l *line) takesValue(list []*urfave.Command, name string) bool {
	for _, c := range list {
		if flagTable(l.filled(c).Flags)[name] || l.takesValue(c.Subcommands, name) {
			return true
		}
	}
	return false
}
