package surface

import (
	"strings"

	"github.com/urfave/cli/v2"

	"mailroom/orchestrator"
)

// reorder brings a command line into the order that the flag parser wants: global flags, the command, its flags, its
// arguments. People write them in any order, and "-5" can be the value of a flag. What follows "--" are arguments.
func reorder(app *cli.App, args []string) ([]string, error) {
	r := &reordering{global: flagTable(app.Flags), all: allFlags(app.Commands), list: app.Commands}
	for i := 1; i < len(args); i++ {
		word := args[i]
		switch {
		case word == "--":
			r.arguments = append(r.arguments, args[i+1:]...)
			i = len(args)
		case word == "--generate-bash-completion":
			r.completion = true
		case len(word) > 1 && word[0] == '-':
			i += r.flag(word, args[i+1:])
		default:
			r.word(word)
		}
	}
	if err := r.checkFlags(); err != nil {
		return nil, err
	}
	out := append([]string{args[0]}, r.globals...)
	out = append(out, r.path...)
	out = append(out, r.flags...)
	if r.completion {
		return append(append(out, r.arguments...), "--generate-bash-completion"), nil
	}
	if len(r.arguments) > 0 {
		out = append(append(out, "--"), r.arguments...)
	}
	return out, nil
}

type reordering struct {
	global, all map[string]bool // name of a flag, and whether it takes a value
	list        []*cli.Command  // commands that may come next
	current     *cli.Command

	globals, path, flags, arguments []string
	named                           []string // flags given to the command, without dashes
	completion                      bool
}

// word takes a word that is no flag: the next part of the command's name, or an argument.
func (r *reordering) word(word string) {
	if len(r.arguments) == 0 {
		for _, c := range r.list {
			if c.HasName(word) || c.HasName(strings.ReplaceAll(strings.ToLower(word), "-", "_")) {
				r.path, r.current, r.list = append(r.path, c.Name), c, c.Subcommands
				return
			}
		}
	}
	r.arguments = append(r.arguments, word)
}

// flag takes a flag, and returns how many of the following words are its value.
func (r *reordering) flag(word string, rest []string) int {
	name, _, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
	own := map[string]bool{}
	if r.current != nil {
		own = flagTable(r.current.Flags)
	}
	takes, isOwn := own[name]
	isGlobal := false
	if !isOwn {
		takes, isGlobal = r.global[name]
	}
	if !isOwn && !isGlobal {
		takes = r.all[name] // before its command is named
	}
	words := []string{word}
	if takes && !joined && len(rest) > 0 {
		words = append(words, rest[0])
	}
	if isGlobal {
		r.globals = append(r.globals, words...)
	} else {
		r.flags = append(r.flags, words...)
		r.named = append(r.named, name)
	}
	return len(words) - 1
}

// checkFlags refuses flags that the command does not have, naming the near ones.
func (r *reordering) checkFlags() error {
	if r.completion {
		return nil
	}
	own := map[string]bool{}
	where := "mailroom"
	if r.current != nil {
		own, where = flagTable(r.current.Flags), "mailroom "+strings.Join(r.path, " ")
	}
	for _, name := range r.named {
		if _, ok := own[name]; ok || name == "help" || name == "h" || name == "version" || name == "v" {
			continue
		}
		var names []string
		for known := range own {
			names = append(names, known)
		}
		e := orchestrator.Errorf(orchestrator.InvalidParams, "%s has no flag --%s", where, name)
		if near := orchestrator.Nearest(name, names); len(near) > 0 {
			return e.WithHint("Did you mean --%s?", strings.Join(near, " or --"))
		}
		return e.WithHint("`%s --help` lists them", where)
	}
	return nil
}

// flagTable says of each flag whether it takes a value.
func flagTable(flags []cli.Flag) map[string]bool {
	table := map[string]bool{}
	for _, f := range flags {
		_, isSwitch := f.(*cli.BoolFlag)
		for _, name := range f.Names() {
			table[name] = !isSwitch
		}
	}
	return table
}

func allFlags(list []*cli.Command) map[string]bool {
	table := map[string]bool{}
	for _, c := range list {
		for name, takes := range flagTable(c.Flags) {
			table[name] = takes
		}
		for name, takes := range allFlags(c.Subcommands) {
			table[name] = takes
		}
	}
	return table
}
