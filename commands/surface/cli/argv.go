package cli

import (
	"maps"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/nearest"
)

// line is a command line that has been read. People write flags, arguments and global flags in any order, and "-5" can
// be the value of a flag; the flag parser wants all flags before the arguments.
type line struct {
	p      *Program
	path   []string        // the command's name, word by word
	next   []command       // what may come next in it
	global map[string]bool // global flags, and whether each takes a value
	own    map[string]bool // those of the command

	called     *urfave.Command      // the command, or group, that path names; nil while path is empty
	definition *commands.Definition // of the command, if the catalogue has it

	globals, flags, arguments []string
	named                     []string // flags given to the command, without dashes
	waiting                   string   // the last flag, when its value is missing
}

// readArgs sorts the words behind the program's name. What follows "--" are arguments.
func (p *Program) readArgs(words []string) *line {
	l := &line{p: p, next: p.below(nil), global: flagTable(globalFlags())}
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
	out := slices.Concat([]string{"mailroom"}, l.globals, l.flags)
	if len(l.arguments) > 0 {
		out = append(append(out, "--"), l.arguments...)
	}
	return out
}

// name is how the command is called.
func (l *line) name() string { return strings.Join(append([]string{"mailroom"}, l.path...), " ") }

// word takes a word that is no flag: the next part of the command's name, or an argument.
func (l *line) word(word string) {
	if len(l.arguments) == 0 {
		for _, c := range l.next {
			if sameName(c.name, word) {
				l.path, l.called, l.definition = append(l.path, c.name), l.p.called(c), c.definition
				l.next, l.own = l.p.below(l.path), flagTable(l.called.Flags)
				return
			}
		}
		if word == "help" && l.called == nil && !l.has("help", "h") {
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
		takes, global = l.global[name]
	}
	if !own && !global && l.called == nil {
		takes = l.p.takesValue(name) // its command is named further on
	}
	words := []string{word}
	if takes && !joined {
		if len(rest) == 0 || l.isFlag(rest[0]) {
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

// isFlag reports whether a word is a flag that the line can have, in full: no value, most likely, of the flag before it.
func (l *line) isFlag(word string) bool {
	name, long := strings.CutPrefix(word, "--")
	name, _, _ = strings.Cut(name, "=")
	_, own := l.own[name]
	_, global := l.global[name]
	return long && len(name) > 1 && (own || global)
}

// globalValue returns the value of a global flag, "" if it is not given.
func (l *line) globalValue(name string) (value string) {
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

// checkFlags refuses flags that the command does not have, naming the one that was meant.
func (l *line) checkFlags() error {
	for _, name := range l.named {
		if _, ok := l.own[name]; ok {
			continue
		}
		return l.noFlag(name)
	}
	return l.valueMissing()
}

// valueMissing refuses a flag without its value.
func (l *line) valueMissing() error {
	if l.waiting == "" {
		return nil
	}
	return orchestrator.Errorf(orchestrator.InvalidParams, "--%s needs a value", l.waiting).WithHint("A value that looks like a flag is written --%s=VALUE", l.waiting)
}

// noFlag is the error for a flag that the command does not have.
func (l *line) noFlag(name string) error {
	e := orchestrator.Errorf(orchestrator.InvalidParams, "%s has no flag %s", l.name(), dashed(name))
	if hint := flagsElsewhere[l.name()+" "+dashed(name)]; hint != "" {
		return e.WithHint("%s", hint)
	}
	near := commands.Meant(name, slices.Concat(slices.Sorted(maps.Keys(l.own)), slices.Sorted(maps.Keys(l.global))))
	if len(near) == 0 {
		if l.definition != nil && slices.ContainsFunc(l.definition.Positional(), func(p *commands.Param) bool { return p.Kind == commands.JSON }) {
			return e.WithHint("`%s --help` lists them; a text that begins with a dash stands behind --", l.name())
		}
		return e.WithHint("`%s --help` lists them", l.name())
	}
	typo := len(nearest.Nearest(name, near)) > 0
	for i := range near {
		near[i] = dashed(near[i])
	}
	did := "Did you mean " + strings.Join(near, " or ") + "?"
	if !typo && l.definition != nil && slices.ContainsFunc(l.definition.Positional(), func(p *commands.Param) bool { return "--"+p.Flag() == near[0] }) {
		return e.WithHint("%s Or write it without a flag: `%s %s`", did, l.name(), argsUsage(l.definition))
	}
	return e.WithHint("%s", did)
}

// dashed is a flag as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// elsewhere are words of other tools, and what they are here.
var elsewhere = map[string]string{
	"ls": "list", "ll": "list", "history": "list", "search": "list", "find": "list", "grep": "list",
	"watch": "tail", "follow": "tail", "logs": "tail", "log": "tail", "events": "tail", "monitor": "tail",
	"get": "show ID", "view": "show ID", "cat": "show ID", "describe": "show ID", "info": "show ID",
	"receive": "read", "recv": "read", "fetch": "read", "pull": "read", "next": "read", "consume": "read", "sub": "tail", "subscribe": "tail",
	"pub": "send NAME TEXT", "publish": "send NAME TEXT", "post": "send NAME TEXT", "push": "send NAME TEXT", "msg": "send NAME TEXT",
	"message": "send NAME TEXT", "say": "send NAME TEXT", "tell": "send NAME TEXT", "reply": "send NAME TEXT --reply-to ID",
	"rm": "cancel ID", "delete": "cancel ID", "del": "cancel ID", "undo": "cancel ID", "remove": "agent remove NAME",
	"ps": "status", "top": "status", "stat": "stats", "metrics": "stats", "unread": "inbox", "agents": "agent list", "who": "agent list", "users": "agent list",
	"add": "agent add NAME", "register": "agent add NAME", "join": "agent add NAME", "groups": "group list", "threads": "thread list",
	"ack": "acknowledge ID", "done": "acknowledge ID", "retry": "dead_letters replay ID", "resend": "dead_letters replay ID", "replay": "dead_letters replay ID",
	"dlq": "dead_letters list", "failed": "dead_letters list", "start": "serve", "run": "serve", "daemon": "serve", "up": "serve", "server": "serve",
	"install": "connect HOST", "setup": "connect HOST", "hook-up": "connect HOST", "config": "setting list", "set": "setting set KEY VALUE",
	"create": "init", "new": "init", "gc": "clear_old", "prune": "clear_old", "clean": "clear_old", "purge": "clear_old", "vacuum": "clear_old",
	"check": "doctor", "health": "doctor", "diagnose": "doctor", "dump": "backup FILE", "export": "backup FILE", "query": "sql QUERY", "explain": "why ID",
	"message list": "list", "message ls": "list", "message send": "send NAME TEXT", "message get": "show ID", "messages send": "send NAME TEXT", "msg list": "list",
	"mail send": "send NAME TEXT", "mail list": "list", "mail read": "read", "mail inbox": "inbox", "compose": "send NAME TEXT", "write": "send NAME TEXT",
	"ui": "console", "gui": "console", "web": "console", "dashboard": "console", "browser": "console",
	"config get": "setting get KEY", "config set": "setting set KEY VALUE", "agent rm": "agent remove NAME", "agent delete": "agent remove NAME",
	"agent create": "agent add NAME", "agent new": "agent add NAME", "agent register": "agent add NAME", "group create": "group set NAME MEMBER", "group new": "group set NAME MEMBER",
	"group rm": "group delete NAME", "agent ls": "agent list", "group ls": "group list", "thread ls": "thread list", "open": "show ID", "peek": "inbox", "count": "status",
	"ping": "status", "uninstall": "connect HOST --remove", "disconnect": "connect HOST --remove",
	"answer": "send NAME TEXT --reply-to ID", "request": "send NAME TEXT", "req": "send NAME TEXT", "topic": "group list", "topics": "group list",
	"tools": "commands", "settings": "setting list", "schedules": "schedule list", "cron": "schedule list", "deliver": "deliver_all",
}

// answers are words of other tools for which there is no command here, and what there is to do instead.
var answers = map[string]string{
	"whoami":  "--as NAME or MAILROOM_AGENT says who runs a command, else it is operator; `mailroom agent list` shows all names",
	"stop":    "Ctrl-C ends `mailroom serve`, and `systemctl --user stop` what `mailroom service install` installed",
	"upgrade": "Put the new program in place of this one; the first command that writes brings the database up to date",
}

// flagsElsewhere are flags of other tools, and what there is to do instead.
var flagsElsewhere = map[string]string{
	"mailroom tail -f": "It follows by itself, until Ctrl-C", "mailroom tail --follow": "It follows by itself, until Ctrl-C",
	"mailroom serve -d": "`mailroom service install` keeps it running", "mailroom serve --detach": "`mailroom service install` keeps it running",
	"mailroom serve --daemon": "`mailroom service install` keeps it running", "mailroom list -a": "It lists the messages of all agents, the newest 20; --limit shows more",
	"mailroom list --all": "It lists the messages of all agents, the newest 20; --limit shows more", "mailroom list --to": "`mailroom list --with NAME` lists what is to or from NAME, and `mailroom inbox NAME` what it has not read",
	"mailroom status --watch": "`mailroom tail` shows what happens; `watch mailroom status` repeats this", "mailroom -V": "`mailroom --version` shows the version",
}

// checkCommand refuses a command that does not exist, naming the near ones.
func (l *line) checkCommand() error {
	if len(l.arguments) == 0 || len(l.next) == 0 {
		return nil
	}
	word := l.arguments[0]
	if len(word) > 64 {
		word = strings.ToValidUTF8(word[:64], "") + "..."
	}
	e := orchestrator.Errorf(orchestrator.UnknownCommand, "there is no command %q", l.name()+" "+word)
	if ours := l.ours(); ours != "" {
		return e.WithHint("Here that is `%s`", "mailroom "+ours)
	}
	if answer := answers[strings.ToLower(word)]; answer != "" && len(l.path) == 0 {
		return e.WithHint("%s", answer)
	}
	first, _, quoted := strings.Cut(word, " ")
	switch isOurs := slices.Contains(names(l.next), first); {
	case strings.EqualFold(word, "mailroom") && len(l.path) == 0:
		return e.WithHint("Leave the second `mailroom` out")
	case quoted && isOurs:
		return e.WithHint("Leave the quotes around the whole out; they go around the text alone, as in `mailroom send NAME \"TEXT\"`")
	}
	if near := nearest.Nearest(word, names(l.next)); len(near) > 0 {
		e.Details = map[string]any{"near": near}
		return e.WithHint("Did you mean %s?", strings.Join(near, " or "))
	}
	return e.WithHint("`%s --help` lists them", l.name())
}

// ours is what the words of another tool are here, in the words of elsewhere: the first two, or the first; "" for others.
func (l *line) ours() string {
	words := slices.Concat(l.path, l.arguments)
	if group := strings.TrimSuffix(words[0], "s"); len(l.path) == 0 && len(words) > 1 && slices.Contains(names(l.p.below([]string{group})), words[1]) {
		return group + " " + strings.Join(words[1:], " ") // agents add b
	}
	for n := min(2, len(words)); n > len(l.path); n-- {
		if ours := elsewhere[strings.ToLower(strings.Join(words[:n], " "))]; ours != "" {
			return ours
		}
	}
	return ""
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
func (p *Program) takesValue(name string) bool {
	return slices.ContainsFunc(p.Catalogue.All(), func(d *commands.Definition) bool { return flagTable(flagsOf(d))[name] }) ||
		slices.ContainsFunc(ownCommands(), func(c command) bool { return flagTable(c.own(p).Flags)[name] })
}
