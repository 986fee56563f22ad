package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/orchestrator"
	"mailroom/orchestrator/nearest"
)

// checkWords refuses --help and --version where a text may stand, since they may be that text.
func (l *line) checkWords() error {
	if err := l.valueMissing(); err != nil {
		return err
	}
	for _, word := range l.texts {
		shows := "The help is `" + l.name() + " --help`"
		switch name := flagName(word); {
		case slices.Contains(versionFlags, name):
			shows = "The version is `mailroom --version`"
		case !slices.Contains(helpFlags, name):
			continue
		}
		return orchestrator.Errorf(orchestrator.InvalidParams, "%s stands where a text can stand; nothing was done",
			word).
			WithHint("%s. %s", behindDashes(l, word), shows)
	}
	return nil
}

// behindDashes says how a text is written that looks like a flag.
func behindDashes(l *line, word string) string {
	return fmt.Sprintf("A text that begins with a dash stands behind --: `%s ... -- %s`", l.name(),
		orchestrator.ShellWord(orchestrator.Clip(word)))
}

// checkFlags refuses flags that the command does not have, naming the one that was meant, flags of one value that are
// given twice, and global flags with an empty value. Of a global flag that is given twice the last counts, so that an
// alias of a shell can have a default.
func (l *line) checkFlags() error {
	for _, name := range l.named {
		if _, ok := l.own[name]; !ok {
			return l.noFlag(name)
		}
	}
	if len(l.earlyTexts) > 0 {
		return orchestrator.InvalidParam(l.definition.Positional()[0].Name, "it is missing").
			WithHint("Write `%s %s`", l.name(), argsUsage(l.definition))
	}
	if l.empty != "" {
		return orchestrator.Errorf(orchestrator.InvalidParams, "--%s is empty", l.empty).
			WithHint("Give it a value, or leave it out")
	}
	if l.called == nil {
		return nil
	}
	for _, flag := range l.called.Flags {
		names := namesOf(flag)
		given := slices.DeleteFunc(slices.Clone(l.named), func(name string) bool { return !slices.Contains(names, name) })
		if _, isList := flag.(*urfave.StringSliceFlag); isList || len(given) < 2 {
			continue
		}
		e := orchestrator.Errorf(orchestrator.InvalidParams, "%s is given twice", dashed(given[0]))
		if given[0] != given[1] {
			e.Message = fmt.Sprintf("%s and %s are the same flag", dashed(given[0]), dashed(given[1]))
		}
		return e.WithHint("It takes one value. Leave one of them out, or run the command once for each")
	}
	return nil
}

// valueMissing refuses a flag without its value.
func (l *line) valueMissing() error {
	if l.waiting == "" {
		return nil
	}
	return orchestrator.Errorf(orchestrator.InvalidParams, "%s needs a value", dashed(l.waiting)).
		WithHint("A value that looks like a flag is written %s=VALUE", dashed(l.waiting))
}

// textOf returns the parameter of a command that takes the words behind all others as the text of a message; nil if it has
// none.
func textOf(d *commands.Definition) *parameter.Param {
	params := d.Positional()
	if len(params) == 0 {
		return nil
	}
	last := params[len(params)-1]
	if last.Arg != "rest" || last.Kind != parameter.JSON {
		return nil
	}
	return last
}

// takesText reports whether the last argument of the command is a text that stands behind others.
func (l *line) takesText() bool {
	if l.definition == nil {
		return l.name() == "mailroom invoke"
	}
	params := l.definition.Positional()
	if len(params) < 2 {
		return false
	}
	last := params[len(params)-1]
	return last.Kind == parameter.JSON || last.Kind == parameter.String && last.NameOf == ""
}

// textMayFollow reports whether the next word may be a text: what stands before it, as a recipient, is given.
func (l *line) textMayFollow() bool {
	return l.takesText() &&
		(len(l.arguments) > 0 || l.definition != nil &&
			slices.ContainsFunc(l.definition.Positional(), func(p *parameter.Param) bool {
				return slices.Contains(l.named, p.Flag())
			}))
}

// noFlag is the error for a flag that the command does not have.
func (l *line) noFlag(name string) error {
	written, mayBeText := dashed(name), false
	if i := slices.IndexFunc(l.texts, func(word string) bool { return flagName(word) == name }); i >= 0 {
		written, mayBeText = l.texts[i], true
	}
	e := orchestrator.Errorf(orchestrator.InvalidParams, "%s has no flag %s", l.name(), orchestrator.Clip(written))
	if l.called != nil && strings.HasSuffix(l.called.ArgsUsage, hostArguments) {
		return e.WithHint("What is for the host stands behind --: `%s -- %s`", l.name(), orchestrator.Clip(written))
	}
	if hint := flagAdvice[l.name()+" "+dashed(name)]; hint != "" {
		return e.WithHint("%s", hint)
	}
	near := parameter.Meant(name, slices.Concat(slices.Sorted(maps.Keys(l.own)), slices.Sorted(maps.Keys(globalTable()))))
	typo := len(nearest.Nearest(name, near)) > 0
	hints := []string{"`" + l.name() + " --help` lists them"}
	for i := range near {
		near[i] = dashed(near[i])
	}
	if len(near) > 0 {
		hints[0] = "Did you mean " + strings.Join(near, " or ") + "?"
	}
	if len(near) > 0 && !typo && l.definition != nil &&
		slices.ContainsFunc(l.definition.Positional(),
			func(p *parameter.Param) bool { return "--"+p.Flag() == near[0] }) {
		hints = append(hints, fmt.Sprintf("Or write it without a flag: `%s %s`", l.name(), argsUsage(l.definition)))
	}
	if mayBeText {
		hints = append(hints, behindDashes(l, written))
	}
	return e.WithHint("%s", strings.ReplaceAll(strings.Join(hints, ". "), "?.", "?"))
}

// flagName is the name of a flag as it was written: without dashes and value.
func flagName(word string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return name
}

// dashed is a flag as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// flagAdvice are flags of other tools, and what there is to do instead.
var flagAdvice = map[string]string{
	"mailroom serve -d":                         "`mailroom service install` keeps it running",
	"mailroom serve --detach":                   "`mailroom service install` keeps it running",
	"mailroom serve --daemon":                   "`mailroom service install` keeps it running",
	"mailroom list -a":                          "It lists the messages of all agents, the newest 20; --limit shows more",
	"mailroom list --all":                       "It lists the messages of all agents, the newest 20; --limit shows more",
	"mailroom agent add --transport":            "`--deliver SCHEME:ADDRESS` says how it gets its messages: exec:COMMAND, file:PATH, https://...",
	"mailroom agent add --command":              "`--deliver exec:COMMAND` runs a command for its messages",
	"mailroom clear_old --older-than":           "`--older-than-days 30` has it",
	"mailroom completion -s":                    "Write `mailroom completion zsh`",
	"mailroom init --project":                   "A project is a folder: `mailroom init --folder FOLDER`",
	"mailroom inbox --unread":                   "It lists what is unread",
	"mailroom inbox --all":                      "It lists what is unread: `mailroom list --to NAME` lists what was read, too",
	"mailroom list --until":                     "`mailroom messages list --until TIME` has it",
	"mailroom setting list --list":              "It lists them without a flag",
	"mailroom dead_letters replay --all-failed": "Write `--all`",
	"mailroom send -t":                          "Did you mean --type, or --recipient?",
	"mailroom list --unread":                    "`mailroom inbox NAME` lists what NAME has not read",
	"mailroom list --failed":                    "Write `--status failed`",
	"mailroom dead_letters replay --to":         "A message keeps its recipient: send its text anew",
	"mailroom list --sort":                      "Messages are listed by when they were sent, the newest first",
	"mailroom list --stuck":                     "`mailroom now` shows what is stuck, and `mailroom why ID` why",
	"mailroom list -q":                          "`--jq .messages[].message_id` prints the ids alone",
	"mailroom list -w":                          "`mailroom tail` shows what happens",
	"mailroom list --watch":                     "`mailroom tail` shows what happens",
	"mailroom show --raw":                       "`--jq .text` prints the text alone, and `--json` all there is",
	"mailroom send --all":                       "`mailroom send all TEXT` sends to everybody",
	"mailroom send --attach":                    "A message is text or JSON: `--file FILE` takes its text from a file",
	"mailroom send --dry-run":                   "`mailroom cancel ID` takes a message back that was not delivered yet",
	"mailroom send --subject":                   "A message has no subject: its first line is shown in lists",
	"mailroom send -s":                          "A message has no subject: its first line is shown in lists",
	"mailroom send --title":                     "A message has no title: its first line is shown in lists",
	"mailroom send --tag":                       "A message has a type, which is any word: `--type WORD`",
	"mailroom send --thread":                    "`mailroom reply ID TEXT` answers in the thread of a message, and `mailroom coral send_message` posts in one",
	"mailroom send --urgent":                    "Write `--priority urgent`",
	"mailroom reply --last":                     "`mailroom reply last TEXT` answers the newest message",
	"mailroom acknowledge --all":                "`mailroom read NAME` takes all that is unread",
	"mailroom alert --test":                     "`mailroom signal doctor` shows whether your phone can be reached",
	"mailroom console --open":                   "It opens the browser by itself",
	"mailroom status --watch":                   "`mailroom tail` shows what happens; `watch mailroom status` repeats this",
	"mailroom -V":                               "`mailroom --version` shows the version",
}

// flagTable says of each flag whether it takes a value.
func flagTable(flags []urfave.Flag) map[string]bool {
	table := map[string]bool{}
	for _, f := range flags {
		_, isSwitch := f.(*urfave.BoolFlag)
		for _, name := range namesOf(f) {
			table[name] = !isSwitch
		}
	}
	return table
}

// globalTable is the flagTable of the global flags. It is not to be changed.
var globalTable = sync.OnceValue(func() map[string]bool { return flagTable(globalFlags()) })

// namesOf returns the names of a flag. Its own method makes them with a regular expression, which took a fiftieth of a
// command.
func namesOf(f urfave.Flag) []string {
	switch f := f.(type) {
	case *urfave.StringFlag:
		return append([]string{f.Name}, f.Aliases...)
	case *urfave.BoolFlag:
		return append([]string{f.Name}, f.Aliases...)
	case *urfave.StringSliceFlag:
		return append([]string{f.Name}, f.Aliases...)
	}
	return f.Names()
}

// takesValue reports whether a flag takes a value in any of the commands.
func (p *Program) takesValue(name string) bool {
	return slices.ContainsFunc(p.Catalogue.All(),
		func(d *commands.Definition) bool { return flagTable(flagsOf(d))[name] }) ||
		slices.ContainsFunc(ownCommands(), func(c command) bool { return flagTable(c.own(p).Flags)[name] })
}
