package surface

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
)

// Offer holds the tools that a caller can use over MCP or HTTP. Hints in errors name these tools instead of shell
// commands, since the caller may have no shell.
type Offer struct {
	Tools  []Tool
	all    []*commands.Definition // all commands of the program, including those that are not offered
	remote bool                   // the caller is on another machine, where some parameters are refused
}

// Tool is a command with its name in an offer.
type Tool struct {
	Command *commands.Definition
	Name    string
}

// NewOffer returns the tools that caller has the right to use. If vocabularies are named, only their tools are
// included, together with the few tools that every agent needs. With exactly one vocabulary, the tools have the names
// from the document of that vocabulary; otherwise some names carry the prefix of the vocabulary.
func NewOffer(catalogue *commands.Catalogue, caller commands.Caller, vocabularies ...string) Offer {
	o := Offer{all: catalogue.All(), remote: caller.Remote}
	for _, d := range o.all {
		if d.HereOnly || d.Card().Rights != "self" && !caller.Admin || !served(d, vocabularies) {
			continue
		}
		name := d.Name
		if len(vocabularies) == 1 {
			name = d.Tool
		}
		o.Tools = append(o.Tools, Tool{d, name})
	}
	return o
}

// served reports whether an offer of these vocabularies contains a command. No vocabularies means all of them.
func served(d *commands.Definition, vocabularies []string) bool {
	return len(vocabularies) == 0 || slices.Contains(vocabularies, d.Vocabulary().Name) ||
		d.BesideAny && !SignalAlone(vocabularies)
}

// SignalAlone reports whether the only vocabulary is signal, the questions to the person. Its callers have no
// messages to read.
func SignalAlone(vocabularies []string) bool {
	return len(vocabularies) == 1 && vocabularies[0] == "signal"
}

// Advised returns the error of a call with a hint that the caller can follow.
func (o Offer) Advised(err error, d *commands.Definition, arguments json.RawMessage) error {
	var e *orchestrator.Error
	if !errors.As(err, &e) {
		return err
	}
	told := *e
	switch {
	case e.Unknown != "":
		return told.WithHint("%s", o.aboutUnknown(d, e))
	case e.Code == orchestrator.InvalidParams:
		if other := o.meant(d, arguments); other != "" {
			return told.WithHint("These parameters belong to %s; call that tool instead", other)
		}
	}
	return o.WithoutShell(err)
}

// WithoutShell returns err with tool names in place of the shell commands in its hint. It removes the sentences about
// commands that are not offered. If no sentence is left, the hint is addressed to the person, or removed if all its
// commands only read. A PermissionDenied error keeps its hint, because the operation may be permitted in a shell.
func (o Offer) WithoutShell(err error) error {
	var e *orchestrator.Error
	if !errors.As(err, &e) || e.Code == orchestrator.PermissionDenied || !strings.Contains(e.Hint, "`mailroom ") {
		return err
	}
	told := *e
	var kept []string
	shows, refused := true, false
	for _, part := range sentences(e.Hint) {
		allOffered := true
		part = quoted().ReplaceAllStringFunc(part, func(line string) string {
			if !strings.HasPrefix(line, "`mailroom ") {
				return line
			}
			line = strings.Trim(line, "`")
			name, onlyThere := o.nameOf(line)
			allOffered = allOffered && name != ""
			shows = shows && o.onlyShows(line)
			refused = refused || onlyThere
			return name
		})
		if allOffered {
			kept = append(kept, part)
		}
	}
	switch {
	case kept != nil:
		return told.WithHint("%s", strings.TrimRight(strings.Join(kept, ""), ".; "))
	case refused:
		return told.WithHint("Only a person on the daemon's machine can do that. %s", e.Hint)
	case shows:
		return told.WithHint("")
	}
	return told.WithHint("Tell the person who runs you: %s", e.Hint)
}

// quoted matches text in backquotes.
var quoted = pattern.New("`[^`]*`")

// sentences splits a hint after each ". " and "; " outside backquotes.
func sentences(hint string) (parts []string) {
	for hint != "" {
		end, code := len(hint), false
		for i := range len(hint) {
			if hint[i] == '`' {
				code = !code
			}
			if rest := hint[i:]; !code && (strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, "; ")) {
				end = i + 2
				break
			}
		}
		parts, hint = append(parts, hint[:end]), hint[end:]
	}
	return parts
}

// nameOf returns the name of the tool for the command in a shell command line, with its parameters in parentheses. It
// returns "" if the command is not offered. onlyThere reports that the command is offered, but not with these
// parameters.
func (o Offer) nameOf(line string) (name string, onlyThere bool) {
	d, rest := o.commandOf(line)
	i := slices.IndexFunc(o.Tools, func(t Tool) bool { return t.Command == d })
	if i < 0 {
		return "", false
	}
	given, onlyThere := o.parametersOf(d, rest)
	if onlyThere {
		return "", true
	}
	if name = o.Tools[i].Name; given != nil {
		name += " (" + strings.Join(given, ", ") + ")"
	}
	return name, false
}

// commandOf returns the command that a shell command line runs, and the text after its name. d is nil if the
// catalogue has no such command.
func (o Offer) commandOf(line string) (d *commands.Definition, rest string) {
	longest := 0
	for _, other := range o.all {
		for _, start := range other.CommandLines() {
			if behind, is := strings.CutPrefix(line+" ", start+" "); is && len(start) > longest {
				d, rest, longest = other, behind, len(start)
			}
		}
	}
	return d, rest
}

// onlyShows reports whether the command in a shell command line changes nothing.
func (o Offer) onlyShows(line string) bool {
	d, _ := o.commandOf(line)
	return d != nil && d.Card().OnlyReads()
}

// word matches one word of a shell command line in a hint.
var word = pattern.New(`"[^"]*"|'[^']*'|\S+`)

// parametersOf returns the parameters that follow the command's name in a shell command line, each as "name: value".
// onlyThere reports that one of them is refused because the caller is on another machine.
func (o Offer) parametersOf(d *commands.Definition, rest string) (given []string, onlyThere bool) {
	arguments, words := d.Positional(), word().FindAllString(rest, -1)
	for i := 0; i < len(words); i++ {
		var p *parameter.Param
		flag, value, has := strings.Cut(words[i], "=")
		if flag, is := strings.CutPrefix(flag, "--"); is {
			if n := slices.IndexFunc(d.Params(), func(p parameter.Param) bool { return p.Flag() == flag }); n >= 0 {
				p = &d.Params()[n]
			}
			switch {
			case p != nil && p.Kind == parameter.Boolean && !has:
				value, has = "true", true
			case !has && i+1 < len(words):
				i++
				value, has = words[i], true
			}
		} else if value, has = words[i], true; len(arguments) > 0 {
			if p = arguments[0]; p.Arg != "rest" {
				arguments = arguments[1:]
			}
		}
		if p == nil {
			continue // a global flag, such as --db
		}
		value = strings.Trim(value, `"'`)
		onlyThere = onlyThere || o.remote && value != "..." && p.OnlyHere(value)
		if has {
			given = append(given, p.Name+": "+value)
		} else {
			given = append(given, p.Name)
		}
	}
	return given, onlyThere
}

// aboutUnknown returns a hint for an error about an unknown name.
func (o Offer) aboutUnknown(d *commands.Definition, e *orchestrator.Error) string {
	var advice []string
	if near, _ := e.Details["near"].([]string); len(near) > 0 {
		advice = append(advice, "Did you mean "+strings.Join(near, " or ")+"?")
	}
	for _, other := range o.Tools {
		if other.Command.ListsAgents {
			advice = append(advice, "To list the agents, call "+other.Name+".")
			break
		}
	}
	for _, p := range d.Params() {
		if p.Name == "hold_unknown" && e.Code == orchestrator.UnknownRecipient {
			advice = append(advice, "If "+orchestrator.Clip(e.Unknown)+
				" will be added later, send the message again with `hold_unknown`. The message then waits until the agent is added.")
		}
	}
	if add, _ := o.nameOf("mailroom agent add"); add != "" {
		return strings.Join(append(advice, "To add an agent, call "+add), " ")
	}
	return strings.Join(append(advice, "Only the person who runs you can add agents"), " ")
}

// meant returns the name of the tool that the caller probably meant, or "". If several vocabularies are served, some
// tools have a prefix. A model that learned a vocabulary from its document calls the name without the prefix, which
// may belong to a command of another vocabulary. The parameters of the call reveal such a mistake.
func (o Offer) meant(d *commands.Definition, arguments json.RawMessage) string {
	var given map[string]json.RawMessage
	if json.Unmarshal(arguments, &given) != nil || takesAll(d, given) {
		return ""
	}
	for _, other := range o.Tools {
		if other.Command != d && other.Command.Tool == d.Tool && takesAll(other.Command, given) {
			return other.Name
		}
	}
	return ""
}

// takesAll reports whether a command has a parameter for every key.
func takesAll(d *commands.Definition, given map[string]json.RawMessage) bool {
	for key := range given {
		if !slices.ContainsFunc(d.Params(), func(p parameter.Param) bool { return p.Name == key }) {
			return false
		}
	}
	return true
}
