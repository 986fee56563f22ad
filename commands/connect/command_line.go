package connect

import (
	"maps"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/pattern"
)

// Command lines of ours are known by their words, whatever the program, the agent and the database are. A user may have
// put a command before them (env A=1, nice, timeout 5), or them into a shell's -c: they are ours then, too, and what
// stands around them stays.

// toolsAt returns the index of the program in a command line that starts our tools; -1 if it does not.
func toolsAt(words []string) int {
	for i := 0; i+5 < len(words); i++ {
		if words[i+1] == "mcp" && words[i+2] == "--as" && words[i+4] == "--vocabulary" {
			return i
		}
	}
	return -1
}

// hookAt returns the index of the program in a command line that ends with one of our hooks; -1 if it does not.
func hookAt(words []string) int {
	for i := 0; i+6 < len(words); i++ {
		if words[i+1] == "hook" && words[i+3] == "--host" && words[i+5] == "--as" && onlyFlags(words[i+7:]) {
			return i
		}
	}
	return -1
}

// onlyFlags reports whether words are flags with a value each.
func onlyFlags(words []string) bool {
	for i := 0; i < len(words); i += 2 {
		if !strings.HasPrefix(words[i], "--") || i+1 == len(words) {
			return false
		}
	}
	return true
}

// own returns the words of ours within a command line, from the program on; nil if they are not there. at finds them.
func own(words []string, at func([]string) int) []string {
	if i := at(words); i >= 0 {
		return words[i:]
	}
	if line, is := shellLine(words); is {
		inner, _ := split(line)
		return own(inner, at)
	}
	return nil
}

// shellLine returns the command line that a shell is given as the last word after -c.
func shellLine(words []string) (string, bool) {
	n := len(words)
	if n < 3 || !strings.HasPrefix(words[n-2], "-") || !strings.HasSuffix(words[n-2], "c") {
		return "", false
	}
	return words[n-1], true
}

// replaced puts other words in the place of ours, and keeps what stands around them. Without ours it returns the other
// words alone.
func replaced(words, other []string, at func([]string) int) []string {
	if i := at(words); i >= 0 {
		return append(slices.Clone(words[:i]), other...)
	}
	if line, is := shellLine(words); is && own(words, at) != nil {
		return append(slices.Clone(words[:len(words)-1]), replacedIn(line, joined(other), at))
	}
	return other
}

// replacedIn does the same in a line for a shell.
func replacedIn(line, other string, at func([]string) int) string {
	words, starts := split(line)
	if i := at(words); i >= 0 {
		return line[:starts[i]] + other
	}
	if inner, is := shellLine(words); is && own(words, at) != nil {
		return line[:starts[len(words)-1]] + orchestrator.ShellWord(replacedIn(inner, other, at))
	}
	return other
}

// joined makes a shell's line of words.
func joined(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = orchestrator.ShellWord(word)
	}
	return strings.Join(quoted, " ")
}

// A word of a shell's line, and the parts of which it consists. What a shell does more with than take it as it is, is
// none.
const partOfWord = `[^\s'"\\;&|<>()$` + "`" + `]+|'[^']*'|"[^"\\$` + "`" + `]*"|\\[^\n]`

var (
	wordPart  = pattern.New(partOfWord)
	shellWord = pattern.New(`^(?:` + partOfWord + `)+`)
)

// split returns the words of a shell's line that is one plain command, and where each starts; nothing for any other
// line.
func split(line string) (words []string, starts []int) {
	for at := 0; ; {
		at += len(line[at:]) - len(strings.TrimLeft(line[at:], " \t"))
		if at == len(line) {
			return words, starts
		}
		raw := shellWord().FindString(line[at:])
		if raw == "" {
			return nil, nil
		}
		words = append(words, wordPart().ReplaceAllStringFunc(raw, func(part string) string {
			switch part[0] {
			case '\'', '"':
				return part[1 : len(part)-1]
			case '\\':
				return part[1:]
			}
			return part
		}))
		starts = append(starts, at)
		at += len(raw)
	}
}

// hookEvent returns the event of a command line that runs one of our hooks; "" for any other.
func hookEvent(line string) string {
	words, _ := split(line)
	if words = own(words, hookAt); words == nil {
		return ""
	}
	return words[2]
}

// commandOf returns the words of the command that a server, or the command line that a hook, has in a configuration.
func commandOf(entry any) (words []string) {
	in, _ := entry.(map[string]any)
	add := func(v any) {
		if word, is := v.(string); is {
			words = append(words, word)
		}
	}
	for _, name := range []string{"command", "args"} {
		if list, is := in[name].([]any); is {
			for _, v := range list {
				add(v)
			}
		} else {
			add(in[name])
		}
	}
	return words
}

// isEntry reports whether connect gives a server of ours this name.
func isEntry(name string) bool {
	return slices.ContainsFunc(agenthost.Hosts, func(h *agenthost.Host) bool { return h.Files[0].EntryName() == name })
}

// runs finds a command line that runs Mailroom's tools or hooks, whoever wrote it.
var runs = pattern.New(`\bmailroom['"]?\s+(?:mcp|hook)\b|\bmcp --as \S+ --vocabulary |\bhook \w+ --host \w+ --as `)

// others lists the command lines in a configuration that run Mailroom and are not connect's: somebody has written or
// changed them, so that they are neither replaced nor removed. name is under which the value stands.
func others(v any, name string) (lines []string) {
	switch in := v.(type) {
	case []any:
		for _, one := range in {
			lines = append(lines, others(one, "")...)
		}
	case map[string]any:
		if words := commandOf(in); len(words) > 0 {
			line := words[0]
			if len(words) > 1 {
				line = joined(words)
			}
			ours := hookEvent(line) != "" || isEntry(name) && own(words, toolsAt) != nil
			if !ours && (runs().MatchString(line) || runs().MatchString(strings.Join(words, " "))) {
				lines = append(lines, line)
			}
			return lines
		}
		for _, key := range slices.Sorted(maps.Keys(in)) {
			lines = append(lines, others(in[key], key)...)
		}
	}
	return lines
}
