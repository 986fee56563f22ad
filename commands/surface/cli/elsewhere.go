package cli

import (
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/nearest"
)

// elsewhere are words of other tools, and what they are here.
var elsewhere = map[string]string{
	"ls": "list", "ll": "list", "history": "list", "search": "list", "find": "list", "grep": "list",
	"watch": "tail", "follow": "tail", "logs": "tail", "log": "tail", "events": "tail", "monitor": "tail",
	"get": "show ID", "view": "show ID", "cat": "show ID", "describe": "show ID", "info": "show ID",
	"receive": "read", "recv": "read", "fetch": "read", "pull": "read", "next": "read", "consume": "read",
	"sub": "tail", "subscribe": "tail",
	"pub": "send NAME TEXT", "publish": "send NAME TEXT", "post": "send NAME TEXT", "push": "send NAME TEXT",
	"msg":     "send NAME TEXT",
	"message": "send NAME TEXT", "say": "send NAME TEXT", "tell": "send NAME TEXT",
	"reply": "send NAME TEXT --reply-to ID",
	"rm":    "cancel ID", "delete": "cancel ID", "del": "cancel ID", "undo": "cancel ID", "remove": "agent remove NAME",
	"ps": "status", "top": "status", "stat": "stats", "metrics": "stats", "unread": "inbox", "agents": "agent list",
	"who": "agent list", "users": "agent list",
	"add": "agent add NAME", "register": "agent add NAME", "join": "agent add NAME", "groups": "group list",
	"threads": "thread list",
	"ack":     "acknowledge ID", "done": "acknowledge ID", "retry": "dead_letters replay ID",
	"resend": "dead_letters replay ID", "replay": "dead_letters replay ID",
	"dlq": "dead_letters list", "failed": "dead_letters list", "start": "serve", "daemon": "serve",
	"up": "serve", "server": "serve",
	"install": "connect HOST", "setup": "connect HOST", "hook-up": "connect HOST", "config": "setting list",
	"set":    "setting set KEY VALUE",
	"create": "init", "new": "init", "gc": "clear_old", "prune": "clear_old", "clean": "clear_old",
	"purge": "clear_old", "vacuum": "clear_old",
	"check": "doctor", "health": "doctor", "diagnose": "doctor", "dump": "backup FILE", "export": "backup FILE",
	"query": "sql QUERY", "explain": "why ID",
	"message list": "list", "message ls": "list", "message send": "send NAME TEXT", "message get": "show ID",
	"messages send": "send NAME TEXT", "msg list": "list",
	"mail send": "send NAME TEXT", "mail list": "list", "mail read": "read", "mail inbox": "inbox",
	"compose": "send NAME TEXT", "write": "send NAME TEXT",
	"ui": "console", "gui": "console", "web": "console", "dashboard": "console", "browser": "console",
	"config get": "setting get KEY", "config set": "setting set KEY VALUE", "agent rm": "agent remove NAME",
	"agent delete": "agent remove NAME",
	"agent create": "agent add NAME", "agent new": "agent add NAME", "agent register": "agent add NAME",
	"group create": "group set NAME MEMBER", "group new": "group set NAME MEMBER",
	"group rm": "group delete NAME", "agent ls": "agent list", "group ls": "group list", "thread ls": "thread list",
	"open": "show ID", "peek": "inbox", "count": "status",
	"ping": "status", "uninstall": "connect HOST --remove", "disconnect": "connect HOST --remove",
	"answer": "send NAME TEXT --reply-to ID", "request": "send NAME TEXT", "req": "send NAME TEXT",
	"topic": "group list", "topics": "group list",
	"tools": "commands", "settings": "setting list", "schedules": "schedule list", "cron": "schedule list",
	"deliver": "deliver_all",
}

// answers are words of other tools for which there is no command here, and what there is to do instead.
var answers = map[string]string{
	"whoami":  "--as NAME or MAILROOM_AGENT says who runs a command, else it is operator; `mailroom agent list` shows all names",
	"stop":    "Ctrl-C ends `mailroom serve`, and `systemctl --user stop` what `mailroom service install` installed",
	"upgrade": "Put the new program in place of this one; the first command that writes brings the database up to date",
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
