package parameter

import (
	"slices"
	"strings"

	"mailroom/orchestrator/nearest"
)

// sameThing are families of words of which other tools, and our own vocabularies, call one thing by this and another by
// that.
var sameThing = [][]string{
	{"recipient", "target", "recipients", "to", "receiver", "dest", "destination"},
	{"sender", "source", "from", "author"},
	{"payload", "message", "content", "question", "text", "body", "msg", "m", "data", "subject", "title", "p"},
	{"message_type", "type", "kind", "topic", "t"},
	{"message_id", "id", "msg_id"},
	{"reply_to", "replyto", "in_reply_to", "parent"},
	{"limit", "batch_size", "n", "count", "max", "lines", "tail", "l"},
	{"ttl_seconds", "ttl", "expires", "expire", "expires_in"},
	{"thread", "thread_id", "threadid", "conversation"},
	{"timeout", "wait", "timeout_seconds", "t"},
	{"not_before", "delay", "at", "schedule"},
	{"grep", "search", "query", "q", "match"},
	{"agent", "name", "user", "u"},
	{"output", "format", "o"},
	{"since", "last", "period"},
	{"json", "j"},
	{"listen", "port", "address", "addr", "bind", "p"},
}

// Meant returns which of some names of parameters or flags are most likely meant by a word that is none of them: those
// that stand for the same thing, otherwise those that are spelt almost like it.
func Meant(word string, names []string) (list []string) {
	word = strings.ReplaceAll(strings.ToLower(word), "-", "_")
	for _, family := range sameThing {
		if !slices.Contains(family, word) {
			continue
		}
		for _, other := range family {
			i := slices.IndexFunc(names,
				func(name string) bool { return strings.EqualFold(strings.ReplaceAll(name, "-", "_"), other) })
			if i >= 0 && other != word {
				return []string{names[i]}
			}
		}
	}
	if len(word) < 2 {
		return nil
	}
	return nearest.Nearest(word, names)
}
