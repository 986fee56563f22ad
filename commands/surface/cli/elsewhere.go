package cli

import (
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/nearest"
)

// groupAliases are other names of groups. Alone they list what the group holds.
var groupAliases = map[string]string{
	"agents": "agent", "groups": "group", "threads": "thread", "schedules": "schedule", "settings": "setting",
	"config": "setting", "cron": "schedule", "dlq": "dead_letters", "topics": "group", "topic": "group",
	"users": "agent", "signals": "signal",
}

// aliases are words of other tools that work here as they stand: none deletes anything.
var aliases = map[string]string{
	"ls": "list", "ll": "list", "history": "list", "search": "list", "find": "list", "grep": "list",
	"watch": "tail", "follow": "tail", "logs": "tail", "log": "tail", "events": "tail", "monitor": "tail",
	"sub": "tail", "subscribe": "tail",
	"get": "show", "view": "show", "cat": "show", "describe": "show", "info": "show", "open": "show",
	"receive": "read", "recv": "read", "consume": "read",
	"pub": "send", "publish": "send", "post": "send", "msg": "send", "say": "send", "tell": "send",
	"answer": "reply", "notify": "alert",
	"ps": "status", "top": "status", "stat": "stats", "metrics": "stats", "count": "status", "ping": "status",
	"unread": "inbox", "peek": "inbox", "who": "agent list",
	"ack": "acknowledge", "done": "acknowledge", "failed": "dead_letters list",
	"retry": "dead_letters replay", "resend": "dead_letters replay", "replay": "dead_letters replay",
	"check": "doctor", "health": "doctor", "diagnose": "doctor", "dump": "backup", "export": "backup",
	"query": "sql", "explain": "why", "tools": "commands", "deliver": "deliver_all",
	"ui": "console", "gui": "console", "web": "console", "dashboard": "console", "browser": "console",
	"agent ls": "agent list", "group ls": "group list", "thread ls": "thread list", "setting ls": "setting list",
	"schedule ls": "schedule list", "dead_letters ls": "dead_letters list",
	"agent create": "agent add", "agent new": "agent add", "agent register": "agent add",
	"group create": "group set", "group new": "group set", "dead_letters retry": "dead_letters replay",
}

// elsewhere are words of other tools, and what they are here: those that delete or make something, or lack a word.
var elsewhere = map[string]string{
	"fetch": "read", "pull": "read", "next": "read", "push": "send NAME TEXT",
	"rm": "cancel ID", "delete": "cancel ID", "del": "cancel ID", "undo": "cancel ID", "remove": "agent remove NAME",
	"add": "agent add NAME", "register": "agent add NAME", "join": "agent add NAME",
	"start": "serve", "daemon": "serve", "up": "serve", "server": "serve",
	"install": "connect HOST", "setup": "connect HOST", "hook-up": "connect HOST",
	"set": "setting set KEY VALUE", "env": "setting list",
	"create": "init", "new": "init", "gc": "clear_old", "prune": "clear_old", "clean": "clear_old",
	"purge": "clear_old", "vacuum": "clear_old", "requeue": "dead_letters replay ID",
	"message": "send NAME TEXT", "message list": "list", "message ls": "list", "message send": "send NAME TEXT", "message get": "show ID",
	"messages send": "send NAME TEXT",
	"mail send":     "send NAME TEXT", "mail list": "list", "mail read": "read", "mail inbox": "inbox",
	"compose": "send NAME TEXT", "write": "send NAME TEXT",
	"agent rm": "agent remove NAME", "agent delete": "agent remove NAME", "group rm": "group delete NAME",
	"uninstall": "connect HOST --remove", "disconnect": "connect HOST --remove",
	"request": "send NAME TEXT --wait", "req": "send NAME TEXT --wait",
}

// answers are words of other tools for which there is no command here, and what there is to do instead.
var answers = map[string]string{
	"login":        "Nobody logs in: --as NAME or MAILROOM_AGENT says who runs a command. `mailroom whoami` shows it",
	"docs":         "`mailroom help COMMAND` explains a command, and `mailroom man` all of them",
	"shell":        "`mailroom sql QUERY` asks the database; `mailroom completion bash` completes words in your shell",
	"agent rename": "A name stays: add an agent with the new one, and remove the old one",
	"stop":         "Ctrl-C ends `mailroom serve`, and `systemctl --user stop` what `mailroom service install` installed",
	"upgrade":      "Put the new program in place of this one; the first command that writes brings the database up to date",
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
	if answer := answers[strings.ToLower(strings.Join(append(slices.Clone(l.path), word), " "))]; answer != "" {
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

// ours is what the words of another tool are here, in the words of elsewhere: the first two, or the first; "" for
// others.
func (l *line) ours() string {
	words := slices.Concat(l.path, l.arguments)
	if group := strings.TrimSuffix(words[0], "s"); len(l.path) == 0 && len(words) > 1 &&
		slices.Contains(names(l.p.below([]string{group})), words[1]) {
		return group + " " + strings.Join(words[1:], " ") // agents add b
	}
	for n := min(2, len(words)); n > len(l.path); n-- {
		if ours := elsewhere[strings.ToLower(strings.Join(words[:n], " "))]; ours != "" {
			return ours
		}
	}
	return ""
}
