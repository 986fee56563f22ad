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

// checkWords refuses --help and --version at a place where a text can be, since they may be the text.
func (l *line) checkWords() error {
	if err := l.valueMissing(); err != nil {
		return err
	}
	for _, word := range l.texts {
		shows := "To see the help, run `" + l.name() + " --help`"
		switch name := flagName(word); {
		case slices.Contains(versionFlags, name):
			shows = "To see the version, run `mailroom --version`"
		case !slices.Contains(helpFlags, name):
			continue
		}
		return orchestrator.Errorf(orchestrator.InvalidParams, "nothing was done: %s could be a flag or a text",
			word).
			WithHint("%s. %s", behindDashes(l, word), shows)
	}
	return nil
}

// behindDashes returns the hint on how to write a text that looks like a flag.
func behindDashes(l *line, word string) string {
	return fmt.Sprintf("To give a text that begins with a dash, write -- before it: `%s ... -- %s`", l.name(),
		orchestrator.ShellWord(orchestrator.Clip(word)))
}

// checkFlags refuses unknown flags, flags of one value that are given twice, and global flags with an empty value.
// For an unknown flag, it suggests the flag that was probably meant. A global flag can be given twice, and the last
// one counts, so that a shell alias can set a default.
func (l *line) checkFlags() error {
	for _, name := range l.named {
		if _, ok := l.own[name]; !ok {
			return l.noFlag(name)
		}
	}
	if len(l.earlyTexts) > 0 {
		return orchestrator.InvalidParam(l.definition.Positional()[0].Name, "a value is required").
			WithHint("Run `%s %s`", l.name(), argsUsage(l.definition))
	}
	if l.empty != "" {
		return orchestrator.Errorf(orchestrator.InvalidParams, "--%s must not be empty", l.empty).
			WithHint("Give a value, or leave the flag out")
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
		return e.WithHint("Give the flag once, or run the command once for each value")
	}
	return nil
}

// valueMissing refuses a flag without its value.
func (l *line) valueMissing() error {
	if l.waiting == "" {
		return nil
	}
	return orchestrator.Errorf(orchestrator.InvalidParams, "%s needs a value", dashed(l.waiting)).
		WithHint("If the value looks like a flag, write %s=VALUE", dashed(l.waiting))
}

// textOf returns the parameter of a command that takes all remaining words as the text of a message, or nil if there
// is none.
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

// takesText reports whether the last argument of the command is a text that follows other arguments.
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

// textMayFollow reports whether the next word may be the text, because an argument before the text, such as the
// recipient, is given.
func (l *line) textMayFollow() bool {
	return l.takesText() &&
		(len(l.arguments) > 0 || l.definition != nil &&
			slices.ContainsFunc(l.definition.Positional(), func(p *parameter.Param) bool {
				return slices.Contains(l.named, p.Flag())
			}))
}

// noFlag returns the error for a flag that the command does not have.
func (l *line) noFlag(name string) error {
	written, mayBeText := dashed(name), false
	if i := slices.IndexFunc(l.texts, func(word string) bool { return flagName(word) == name }); i >= 0 {
		written, mayBeText = l.texts[i], true
	}
	e := orchestrator.Errorf(orchestrator.InvalidParams, "%s has no flag %s", l.name(), orchestrator.Clip(written))
	if l.called != nil && strings.HasSuffix(l.called.ArgsUsage, hostArguments) {
		return e.WithHint("Write the arguments of the host after --: `%s -- %s`", l.name(), orchestrator.Clip(written))
	}
	if hint := flagAdvice[l.name()+" "+dashed(name)]; hint != "" {
		return e.WithHint("%s", hint)
	}
	near := parameter.Meant(name, slices.Concat(slices.Sorted(maps.Keys(l.own)), slices.Sorted(maps.Keys(globalTable()))))
	typo := len(nearest.Nearest(name, near)) > 0
	hints := []string{"To list the flags, run `" + l.name() + " --help`"}
	for i := range near {
		near[i] = dashed(near[i])
	}
	if len(near) > 0 {
		hints[0] = "Did you mean " + strings.Join(near, " or ") + "?"
	}
	if len(near) > 0 && !typo && l.definition != nil &&
		slices.ContainsFunc(l.definition.Positional(),
			func(p *parameter.Param) bool { return "--"+p.Flag() == near[0] }) {
		hints = append(hints, fmt.Sprintf("Or write the value without a flag: `%s %s`", l.name(), argsUsage(l.definition)))
	}
	if mayBeText {
		hints = append(hints, behindDashes(l, written))
	}
	return e.WithHint("%s", strings.ReplaceAll(strings.Join(hints, ". "), "?.", "?"))
}

// flagName returns the name of a flag without its dashes and its value.
func flagName(word string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return name
}

// dashed returns a flag's name with its dashes.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// flagAdvice maps flags of other tools to advice on what to do instead.
var flagAdvice = map[string]string{
	"mailroom serve -d":                         "To keep the daemon running in the background, run `mailroom service install`",
	"mailroom serve --detach":                   "To keep the daemon running in the background, run `mailroom service install`",
	"mailroom serve --daemon":                   "To keep the daemon running in the background, run `mailroom service install`",
	"mailroom list -a":                          "By default, `mailroom list` lists the 20 newest messages across all agents. To list more, add --limit",
	"mailroom list --all":                       "By default, `mailroom list` lists the 20 newest messages across all agents. To list more, add --limit",
	"mailroom agent add --transport":            "To choose how the agent gets messages, use `--deliver SCHEME:ADDRESS`: exec:COMMAND, file:PATH, https://...",
	"mailroom agent add --command":              "To run a command for the agent's messages, use `--deliver exec:COMMAND`",
	"mailroom clear_old --older-than":           "Use `--older-than-days 30`",
	"mailroom completion -s":                    "Run `mailroom completion zsh`",
	"mailroom init --project":                   "A project is a folder. To choose the folder, run `mailroom init --folder FOLDER`",
	"mailroom inbox --unread":                   "`mailroom inbox` lists only unread messages. Leave the flag out",
	"mailroom inbox --all":                      "`mailroom inbox` lists only unread messages. To list read messages as well, run `mailroom list --to NAME`",
	"mailroom list --until":                     "Run `mailroom messages list --until TIME`",
	"mailroom setting list --list":              "Run `mailroom setting list` without the flag",
	"mailroom dead_letters replay --all-failed": "Use `--all`",
	"mailroom send -t":                          "Did you mean --type or --recipient?",
	"mailroom list --unread":                    "To list the unread messages of NAME, run `mailroom inbox NAME`",
	"mailroom list --failed":                    "Use `--status failed`",
	"mailroom dead_letters replay --to":         "A message keeps its recipient. To reach another agent, send the text as a new message",
	"mailroom list --sort":                      "`mailroom list` sorts messages by the time they were sent, newest first",
	"mailroom list --stuck":                     "To list stuck messages, run `mailroom now`. To see why a message is stuck, run `mailroom why ID`",
	"mailroom list -q":                          "To print only the IDs, use `--jq .messages[].message_id`",
	"mailroom list -w":                          "To see events as they happen, run `mailroom tail`",
	"mailroom list --watch":                     "To see events as they happen, run `mailroom tail`",
	"mailroom show --raw":                       "To print only the text, use `--jq .text`. To print all fields, use `--json`",
	"mailroom send --all":                       "To send to all agents, run `mailroom send all TEXT`",
	"mailroom send --attach":                    "A message is text or JSON and has no attachments. To send the text of a file, use `--file FILE`",
	"mailroom send --dry-run":                   "To cancel a message that has not been delivered yet, run `mailroom cancel ID`",
	"mailroom send --subject":                   "A message has no subject. Lists show the first line of the text",
	"mailroom send -s":                          "A message has no subject. Lists show the first line of the text",
	"mailroom send --title":                     "A message has no title. Lists show the first line of the text",
	"mailroom send --tag":                       "A message has a type instead of tags. The type can be any word: `--type WORD`",
	"mailroom send --thread":                    "To answer in the thread of a message, run `mailroom reply ID TEXT`. To post in a thread, run `mailroom coral send_message`",
	"mailroom send --urgent":                    "Use `--priority urgent`",
	"mailroom reply --last":                     "To answer the newest message, run `mailroom reply last TEXT`",
	"mailroom acknowledge --all":                "To read all unread messages, run `mailroom read NAME`",
	"mailroom alert --test":                     "To check whether Mailroom can reach your phone, run `mailroom signal doctor`",
	"mailroom console --open":                   "`mailroom console` opens the browser without a flag",
	"mailroom status --watch":                   "To see events as they happen, run `mailroom tail`. To refresh the status continuously, run `watch mailroom status`",
	"mailroom -V":                               "To see the version, run `mailroom --version`",
}

// flagTable maps the name of each flag to whether the flag takes a value.
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

// globalTable returns the flagTable of the global flags. Callers must not change it.
var globalTable = sync.OnceValue(func() map[string]bool { return flagTable(globalFlags()) })

// namesOf returns the names of a flag. The method Names of urfave's flags uses a regular expression, which took a
// fiftieth of the time of a command.
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
