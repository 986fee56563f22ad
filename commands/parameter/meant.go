package parameter

import (
	"slices"
	"strings"

	"mailroom/orchestrator/nearest"
)

// sameThing lists groups of names that other tools and Mailroom's vocabularies use for the same thing.
var sameThing = [][]string{
	{"recipient", "target", "recipients", "to", "receiver", "dest", "destination", "group"},
	{"sender", "source", "from", "author"},
	{"payload", "message", "content", "question", "text", "body", "msg", "m", "data"},
	{"message_type", "type", "kind"},
	{"message_id", "id", "msg_id"},
	{"reply_to", "replyto", "in_reply_to", "parent"},
	{"limit", "batch_size", "n", "count", "max", "lines", "tail", "l"},
	{"ttl_seconds", "ttl", "expires", "expire", "expires_in"},
	{"thread", "thread_id", "threadid", "conversation"},
	{"timeout", "wait", "timeout_seconds"},
	{"not_before", "delay", "at", "in", "schedule"},
	{"grep", "search", "query", "match"},
	{"agent", "name", "user", "u"},
	{"output", "format", "o"},
	{"since", "last", "period"},
	{"json", "j"},
	{"priority", "prio", "p"},
	{"status", "state"},
	{"file", "f", "body_file"},
	{"options", "option", "choice", "choices"},
	{"idempotency_key", "id_key", "key", "dedup", "dedupe"},
	{"listen", "port", "address", "addr", "bind", "p"},
}

// Same returns the name in names that means the same as word, or "" if there is none. names are parameters or flags,
// and word is none of them.
func Same(word string, names []string) string {
	word = strings.ReplaceAll(strings.ToLower(word), "-", "_")
	for _, family := range sameThing {
		if !slices.Contains(family, word) {
			continue
		}
		for _, other := range family {
			i := slices.IndexFunc(names,
				func(name string) bool { return strings.EqualFold(strings.ReplaceAll(name, "-", "_"), other) })
			if i >= 0 && other != word {
				return names[i]
			}
		}
	}
	return ""
}

// Meant returns the names that word most likely means: the name that means the same or, if there is none, names with
// a similar spelling. names are parameters or flags, and word is none of them.
func Meant(word string, names []string) []string {
	if same := Same(word, names); same != "" {
		return []string{same}
	}
	if len(word) < 2 {
		return nil
	}
	return nearest.Nearest(strings.ReplaceAll(strings.ToLower(word), "-", "_"), names)
}
