package cli

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
)

// line is a parsed command line. Users write flags, arguments and global flags in any order, and "-5" can be the
// value of a flag, but the flag parser requires all flags before the arguments.
type line struct {
	p    *Program
	path []string        // name of the command, word by word
	next []command       // commands that can follow path
	own  map[string]bool // flags of the command, and whether each takes a value

	called     *urfave.Command      // the command or group that path names; nil while path is empty
	definition *commands.Definition // definition of the command, if it is in the catalogue
	byWord     bool                 // path is one of the command's other names

	words                     []string // as typed
	globals, flags, arguments []string
	values                    map[string]string // values of the global flags; "true" for a switch without a value
	named                     []string          // flags given to the command, without dashes
	waiting                   string            // last flag whose value is missing
	empty                     string            // a global flag with an empty value
	lists                     bool              // path is an alias of a group; alone, it lists the group
	texts                     []string          // words that look like flags, at places where a text can be
	searches                  bool              // called as search, find or grep: a following noun is a text
	earlyTexts                []string          // values of flags such as -m that precede the recipient
}

// readArgs parses the words after the program's name. All words after "--" are arguments.
func (p *Program) readArgs(words []string) *line {
	l := &line{p: p, words: words, next: p.below(nil), values: map[string]string{}}
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "--":
			for _, word := range words[i+1:] {
				l.argument(word)
			}
			p.asTyped = len(words) - i - 1
			return l.whole()
		case len(word) > 1 && word[0] == '-':
			i += l.flag(word, words[i+1:])
		default:
			l.word(word)
		}
	}
	return l.whole()
}

// whole appends the command list if the line ends with an alias of a group, or with a group whose only command is
// list.
func (l *line) whole() *line {
	if alone := len(l.next) == 1 && l.next[0].name == "list"; (l.lists || alone) && len(l.next) > 0 && len(l.arguments) == 0 {
		l.word("list")
	}
	return l
}

// alias replaces a word that other tools use by the words of the equivalent command, and reports whether it did so.
func (l *line) alias(word string) bool {
	word = strings.ToLower(strings.ReplaceAll(word, "-", "_"))
	path := strings.Join(l.path, " ")
	if group := groupAliases[word]; group != "" && len(l.path) == 0 {
		l.word(group)
		l.lists = true
		return true
	}
	ours := ""
	if !l.searches {
		ours = withNoun(path, word)
	}
	if ours != "" { // the words replace the verb
		l.path, l.called, l.definition, l.own, l.next = nil, nil, nil, nil, l.p.below(nil)
	} else if len(l.path) > 0 {
		ours, _ = strings.CutPrefix(aliases[path+" "+word], path+" ")
	} else if host := agenthost.Meant(word); host != word {
		ours = host
	} else {
		ours = aliases[word]
		l.searches = slices.Contains([]string{"search", "find", "grep"}, word)
	}
	for part := range strings.FieldsSeq(ours) {
		l.word(part)
	}
	return ours != ""
}

// argv returns the line in the order that the flag parser requires.
func (l *line) argv() []string {
	out := slices.Concat([]string{"mailroom"}, l.globals, l.flags)
	if len(l.arguments) > 0 {
		out = append(append(out, "--"), l.arguments...)
	}
	return out
}

// name returns the full name of the command, beginning with "mailroom".
func (l *line) name() string { return strings.Join(append([]string{"mailroom"}, l.path...), " ") }

// word parses a word that is not a flag: the next part of the command's name, or an argument.
func (l *line) word(word string) {
	if len(l.arguments) == 0 {
		for _, c := range l.next {
			if sameName(c.name, word) {
				l.path, l.called, l.definition = append(l.path, c.name), l.p.called(c), c.definition
				l.byWord = c.word.Path != nil
				l.next, l.own = l.p.below(l.path), flagTable(l.called.Flags)
				return
			}
		}
		if l.alias(word) {
			return
		}
		if word == "help" && l.called == nil && !l.has("help", "h") {
			l.globals, l.values["help"] = append(l.globals, "--help"), "true"
			return
		}
	}
	l.argument(word)
}

// argument appends an argument. After the recipient, it also appends the texts that preceded the recipient.
func (l *line) argument(word string) {
	l.arguments = append(l.arguments, word)
	if len(l.earlyTexts) > 0 && l.textMayFollow() {
		l.arguments, l.earlyTexts = append(l.arguments, l.earlyTexts...), nil
	}
}

// sameName reports whether two command names are equal, ignoring case and the difference between '-' and '_'.
func sameName(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, "-", "_"), strings.ReplaceAll(b, "-", "_"))
}

// flag parses a flag and returns the number of following words that are its value.
func (l *line) flag(word string, rest []string) int {
	name, value, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
	ours := l.translated(name)
	if joined && l.textMayFollow() {
		ours = "" // a single word, which may be the text
	}
	if ours != "" && l.definition != nil && name != "data" { // curl's --data holds JSON, not a text
		if text := textOf(l.definition); text != nil && text.Flag() == ours {
			return l.text(name, value, joined, rest)
		}
	}
	if ours != "" {
		word, name = strings.Replace(word, name, ours, 1), ours
		if len(ours) > 1 && word[1] != '-' {
			word = "-" + word
		}
	}
	takes, own := l.own[name]
	global := false
	if !own {
		takes, global = globalTable()[name]
	}
	if !own && !global && l.called == nil {
		takes = l.p.takesValue(name) // the command's name follows later
	}
	words := []string{word}
	if own && name == waitFlag && takes && !joined && l.definition != nil && waitsForAnswer(l.definition) &&
		(len(rest) == 0 || !isDuration(rest[0]) || // a number followed by other words begins the text
			!strings.ContainsAny(rest[0], "smhd") && len(rest) > 1 && !l.isFlag(rest[1])) {
		words, joined = []string{word + "=" + waitByDefault}, true
	}
	if takes && !joined {
		if len(rest) == 0 || l.isFlag(rest[0]) {
			l.waiting = name
		} else {
			words, value = append(words, rest[0]), rest[0]
		}
	}
	if !own && l.textMayFollow() {
		l.texts = append(l.texts, word)
	}
	if global && takes && value == "" && l.waiting == "" {
		l.empty = name
	}
	if global {
		if !takes && !joined {
			value = "true"
		}
		l.globals, l.values[name] = append(l.globals, words...), value
	} else {
		l.flags = append(l.flags, words...)
		l.named = append(l.named, name)
	}
	return len(words) - 1
}

// text parses a flag such as -m, whose value is the text that can also be given as an argument. It returns the number
// of following words that are the value of the flag.
func (l *line) text(name, value string, joined bool, rest []string) int {
	taken := 0
	if !joined {
		if len(rest) == 0 || l.isFlag(rest[0]) {
			l.waiting = name
			return 0
		}
		value, taken = rest[0], 1
	}
	if l.textMayFollow() {
		l.arguments = append(l.arguments, value)
	} else {
		l.earlyTexts = append(l.earlyTexts, value)
	}
	return taken
}

// translated returns the flag of Mailroom that corresponds to a flag of another tool, such as --limit for -n, or ""
// if there is none. It translates no flag of a command that asks for confirmation, so that nothing irreversible rests
// on a guess.
func (l *line) translated(name string) string {
	_, own := l.own[name]
	_, global := globalTable()[name]
	if own || global || l.called == nil || l.definition != nil && l.definition.Confirm != "" {
		return ""
	}
	if ours := parameter.Same(name, slices.Collect(maps.Keys(l.own))); ours != "" {
		return ours
	}
	return parameter.Same(name, []string{"output", "json"})
}

// isFlag reports whether a word is a long flag, written in full, that this line accepts. Such a word is most likely
// not the value of the preceding flag.
func (l *line) isFlag(word string) bool {
	name, long := strings.CutPrefix(word, "--")
	name, _, _ = strings.Cut(name, "=")
	_, own := l.own[name]
	_, global := globalTable()[name]
	return long && len(name) > 1 && (own || global || l.translated(name) != "")
}

// has reports whether a global switch is on under any of the names.
func (l *line) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		on, err := strconv.ParseBool(l.values[name])
		return err == nil && on
	})
}

// isDuration reports whether a word is a duration.
func isDuration(word string) bool {
	_, err := orchestrator.ParseDuration(word)
	return err == nil
}
