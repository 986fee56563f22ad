package connect

import (
	"maps"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/pattern"
)

// Mailroom recognizes its own command lines by their words, whatever the program, the agent and the database are. A
// user may have put a command before them (env A=1, nice, timeout 5), or may have put them into a shell's -c. Such
// lines are still recognized, and what surrounds our words is kept.

// toolsAt returns the index of the program in a command line that starts our tools, or -1 if the line does not.
func toolsAt(words []string) int {
	for i := 0; i+5 < len(words); i++ {
		if words[i+1] == "mcp" && words[i+2] == "--as" && words[i+4] == "--vocabulary" {
			return i
		}
	}
	return -1
}

// hookAt returns the index of the program in a command line that ends with one of our hooks, or -1 if the line does
// not.
func hookAt(words []string) int {
	for i := 0; i+6 < len(words); i++ {
		if words[i+1] == "hook" && words[i+3] == "--host" && words[i+5] == "--as" && onlyFlags(words[i+7:]) {
			return i
		}
	}
	return -1
}

// onlyFlags reports whether words consists of flags with one value each.
func onlyFlags(words []string) bool {
	for i := 0; i < len(words); i += 2 {
		if !strings.HasPrefix(words[i], "--") || i+1 == len(words) {
			return false
		}
	}
	return true
}

// own returns our words within a command line, from the program on, or nil if at does not find them.
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

// shellLine returns the command line that a shell gets as the last word, after -c.
func shellLine(words []string) (string, bool) {
	n := len(words)
	if n < 3 || !strings.HasPrefix(words[n-2], "-") || !strings.HasSuffix(words[n-2], "c") {
		return "", false
	}
	return words[n-1], true
}

// replaced replaces our words with others and keeps the words around them. Without our words, it returns the other
// words.
func replaced(words, other []string, at func([]string) int) []string {
	if i := at(words); i >= 0 {
		return append(slices.Clone(words[:i]), other...)
	}
	if line, is := shellLine(words); is && own(words, at) != nil {
		return append(slices.Clone(words[:len(words)-1]), replacedIn(line, joined(other), at))
	}
	return other
}

// replacedIn replaces our words in a line for a shell, and keeps what surrounds them.
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

// joined returns the shell command line for the words.
func joined(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = orchestrator.ShellWord(word)
	}
	return strings.Join(quoted, " ")
}

// partOfWord matches a part of a word in a shell's line. It does not match anything that a shell would interpret.
const partOfWord = `[^\s'"\\;&|<>()$` + "`" + `]+|'[^']*'|"[^"\\$` + "`" + `]*"|\\[^\n]`

var (
	wordPart  = pattern.New(partOfWord)
	shellWord = pattern.New(`^(?:` + partOfWord + `)+`)
)

// split returns the words of a shell's line, and the position where each starts. It returns nil unless the line is
// one plain command.
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

// hookEvent returns the event of a command line that runs one of our hooks, or "" for any other line.
func hookEvent(line string) string {
	words, _ := split(line)
	if words = own(words, hookAt); words == nil {
		return ""
	}
	return words[2]
}

// commandOf returns the words of the command in the configuration of a server, or the command line of a hook as one
// word.
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

// isEntry reports whether connect uses this name for one of our servers.
func isEntry(name string) bool {
	return slices.ContainsFunc(agenthost.Hosts, func(h *agenthost.Host) bool { return h.Files[0].EntryName() == name })
}

// runs matches a command line that runs Mailroom's tools or hooks, whoever wrote it.
var runs = pattern.New(`\bmailroom['"]?\s+(?:mcp|hook)\b|\bmcp --as \S+ --vocabulary |\bhook \w+ --host \w+ --as `)

// others returns the command lines in a configuration that run Mailroom but were written or changed by somebody else.
// connect neither replaces nor removes them. name is the key of the value v.
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
