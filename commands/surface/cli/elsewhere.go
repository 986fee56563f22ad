package cli

import (
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/nearest"
)

// groupAliases maps other names to groups. Without a further word, an alias lists the group.
var groupAliases = map[string]string{
	"agents": "agent", "groups": "group", "threads": "thread", "schedules": "schedule", "settings": "setting",
	"config": "setting", "cron": "schedule", "dlq": "dead_letters", "topics": "group", "topic": "group",
	"users": "agent", "signals": "signal",
}

// aliases maps words of other tools to commands that take the same arguments. None of them deletes anything.
var aliases = map[string]string{
	"ls": "list", "ll": "list", "history": "list", "search": "list", "find": "list", "grep": "list",
	"watch": "tail", "follow": "tail", "logs": "tail", "log": "tail", "events": "tail", "monitor": "tail",
	"sub": "tail", "subscribe": "tail",
	"get": "show", "view": "show", "cat": "show", "describe": "show", "inspect": "show", "open": "show",
	"receive": "read", "recv": "read", "consume": "read",
	"pub": "send", "publish": "send", "post": "send", "msg": "send", "say": "send", "tell": "send",
	"answer": "reply", "notify": "alert",
	"ps": "status", "top": "status", "info": "status", "stat": "stats", "metrics": "stats", "count": "status", "ping": "agent show",
	"unread": "inbox", "peek": "inbox", "who": "agent list",
	"ack": "acknowledge", "done": "acknowledge", "failed": "dead_letters list", "dead": "dead_letters list",
	"retry": "dead_letters replay", "resend": "dead_letters replay", "replay": "dead_letters replay",
	"check": "doctor", "health": "doctor", "diagnose": "doctor", "dump": "backup",
	"query": "sql", "explain": "why", "tools": "commands", "deliver": "deliver_all",
	"questions": "signal list", "mark_read": "acknowledge",
	"ui": "console", "gui": "console", "web": "console", "dashboard": "console", "browser": "console",
	"agent ls": "agent list", "group ls": "group list", "thread ls": "thread list", "setting ls": "setting list",
	"schedule ls": "schedule list", "dead_letters ls": "dead_letters list",
	"agent create": "agent add", "agent new": "agent add", "agent register": "agent add",
	"dead_letters retry": "dead_letters replay",
}

// elsewhere maps words of other tools to suggestions. Those commands delete or create something, or need another
// word.
var elsewhere = map[string]string{
	"pop": "read NAME -n 1", "redeliver": "dead_letters replay ID", "release": "mail release ID",
	"server report": "status", "server ping": "doctor", "kv": "setting list", "context": "status --db PATH",
	"broadcast": "send all TEXT", "push": "send NAME TEXT",
	"rm": "cancel ID", "delete": "cancel ID", "del": "cancel ID", "undo": "cancel ID", "remove": "agent remove NAME",
	"add": "agent add NAME", "register": "agent add NAME",
	"daemon": "serve", "up": "serve", "server": "serve", "server check": "doctor", "server info": "status", "daemon status": "status", "daemon logs": "tail",
	"install": "connect HOST", "setup": "connect HOST", "hook-up": "connect HOST",
	"set": "setting set KEY VALUE", "env": "setting list",
	"create": "init", "new": "init", "gc": "clear_old", "prune": "clear_old", "clean": "clear_old",
	"vacuum": "clear_old", "requeue": "dead_letters replay ID",
	"message list": "list", "message ls": "list", "message send": "send NAME TEXT", "message get": "show ID", "message show": "show ID",
	"messages send": "send NAME TEXT", "compose": "send NAME TEXT", "write": "send NAME TEXT",
	"outbox": "list --from NAME", "sent": "list --from NAME",
	"agent rm": "agent remove NAME", "agent delete": "agent remove NAME", "group rm": "group delete NAME", "group show": "group list",
	"group create": "group set NAME AGENT ...", "group new": "group set NAME AGENT ...",
	"schedule rm": "schedule remove NAME", "schedule delete": "schedule remove NAME", "dead_letters purge": "clear_old",
	"uninstall": "connect HOST --remove", "disconnect": "connect HOST --remove",
	"request": "send NAME TEXT --wait", "req": "send NAME TEXT --wait",
	"listen": "wait", "tui": "console", "hooks": "connect HOST", "spawn": "agent add NAME --start COMMAND",
	"relay new": "invite NAME", "relay connect": "join LINK", "relay status": "status",
}

const (
	quoteText  = "Put quotes only around the text, as in `mailroom send NAME \"TEXT\"`"
	stopDaemon = "To stop `mailroom serve`, press Ctrl-C. To stop the service from `mailroom service install`, run `systemctl --user stop` with the name of the service"
	leaseBack  = "A message that was read with a lease becomes unread when the lease expires. To make it unread now, run `mailroom mail release ID`"
	ownAgents  = "To give each terminal its own agent, run `mailroom connect claude --as auto` once. Then run `mailroom claude` in each " +
		"terminal. For another host, run `mailroom HOST --as NAME` in each terminal"
	sessionsOfHosts = "Mailroom starts agent hosts but does not control their sessions. To start a host, run `mailroom HOST --as NAME`. To pass " +
		"arguments to the host, write them after --"
	rolesAndGroups = "To write to several agents by one name, use a role, `mailroom agent add NAME --role ROLE` and `mailroom send role:ROLE TEXT`, " +
		"or a group, `mailroom group set NAME AGENT ...`"
	withLease = "To take a message and acknowledge it later, run `mailroom wait --recipient NAME --lease 10m`, and then `mailroom acknowledge ID`. " +
		"To mark it as read at once, run `mailroom read NAME -n 1`"
	noExtension = "A lease cannot be extended. Take the message with a longer lease, as in `mailroom wait --lease 1h`"
	oneInbox    = "Every agent has one inbox. To see what waits in the inboxes, run `mailroom status`. To read an inbox, run `mailroom read NAME`"
)

// answers maps words of other tools for which there is no command to advice on what to do instead.
var answers = map[string]string{
	"login":        "Mailroom has no login. To choose the agent, use --as NAME or MAILROOM_AGENT. To see the agent in use, run `mailroom whoami`",
	"docs":         "To see the help of a command, run `mailroom help COMMAND`. To see the help of all commands, run `mailroom man`",
	"shell":        "To query the database, run `mailroom sql QUERY`. To complete words in your shell, run `mailroom completion bash`",
	"agent rename": "An agent cannot be renamed. Add an agent with the new name, and remove the old agent",
	"message":      "To send a message, run `mailroom send NAME TEXT`. To list messages, run `mailroom list`",
	"fetch":        withLease, "pull": withLease, "next": withLease, "consumer next": withLease,
	"extend": noExtension, "renew": noExtension, "wpi": noExtension, "touch": noExtension,
	"purge": "To cancel an undelivered message, run `mailroom cancel ID`. To delete old finished messages of all agents, run `mailroom clear_old`",
	"nack":  leaseBack, "nak": leaseBack,
	"quickstart": "To see a demonstration, run `mailroom demo`. To start an agent, run `mailroom claude`",
	"transcript": "Mailroom does not record sessions. To list the messages to and from an agent, run `mailroom list --with NAME`",
	"resume":     sessionsOfHosts, "fork": sessionsOfHosts, "term": sessionsOfHosts,
	"1": sessionsOfHosts, "2": ownAgents, "3": ownAgents, "4": ownAgents,
	"tag": rolesAndGroups, "tags": rolesAndGroups,
	"reset":  "To delete finished messages, run `mailroom clear_old`. To use an empty database, run `mailroom init` in another folder",
	"kill":   "To end a session, end the agent host in its terminal. To stop the messages between two agents, run `mailroom hold NAME NAME`",
	"stream": oneInbox, "consumer": oneInbox, "queue": oneInbox,
	"start":       "To start the daemon, run `mailroom serve`. To start an agent host, run `mailroom claude`",
	"export":      "To copy the database, run `mailroom backup FILE`. To print rows of the database, run `mailroom sql QUERY --json`",
	"forward":     "To forward the text of a message, run `mailroom show ID --jq .text | mailroom send NAME -`",
	"daemon stop": stopDaemon, "stop": stopDaemon,
}

// withNoun returns the command for a verb of other tools and the noun after it, as in kubectl get agents, or "" if
// the noun is not such a noun.
func withNoun(verb, noun string) string {
	group := groupAliases[noun]
	switch {
	case verb != "list" && verb != "show":
		return ""
	case noun == "message":
		return verb
	case noun == "messages":
		return "list"
	case group != "" && strings.HasSuffix(noun, "s"):
		return group + " list"
	case verb == "show" && (noun == "agent" || noun == "thread"):
		return noun + " show"
	}
	return ""
}

// checkCommand refuses an unknown command and suggests similar names.
func (l *line) checkCommand() error {
	if len(l.arguments) == 0 || len(l.next) == 0 {
		return nil
	}
	word := l.arguments[0]
	if len(word) > 64 {
		word = strings.ToValidUTF8(word[:64], "") + "..."
	}
	e := orchestrator.Errorf(orchestrator.UnknownCommand, "unknown command %q", l.name()+" "+word)
	if advice := l.advice(); advice != "" {
		return e.WithHint("%s", advice)
	}
	first, _, quoted := strings.Cut(word, " ")
	switch isOurs := slices.Contains(names(l.next), first); {
	case strings.EqualFold(word, "mailroom") && len(l.path) == 0:
		return e.WithHint("Remove the second `mailroom`")
	case quoted && isOurs:
		return e.WithHint(quoteText)
	}
	if near := nearest.Nearest(word, names(l.next)); len(near) > 0 {
		e.Details = map[string]any{"near": near}
		return e.WithHint("Did you mean %s?", strings.Join(near, " or "))
	}
	if len(l.path) > 0 && slices.Contains(names(l.next), "show") {
		return e.WithHint("Did you mean `%s show %s`?", l.name(), orchestrator.ShellWord(word))
	}
	return e.WithHint("To list the commands, run `%s --help`", l.name())
}

// advice returns a suggestion for the first two words, or the first word, if other tools have them; otherwise "".
func (l *line) advice() string {
	words := slices.Concat(l.path, l.arguments)
	for n := min(2, len(words)); n > len(l.path); n-- {
		typed := strings.ToLower(strings.Join(words[:n], " "))
		if answer := answers[typed]; answer != "" {
			return answer
		}
		if ours := elsewhere[typed]; ours != "" {
			return "Use `mailroom " + ours + "` instead"
		}
	}
	return ""
}
