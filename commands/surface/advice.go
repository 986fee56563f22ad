package surface

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// offer is what is offered over MCP or HTTP. Errors advise whoever calls in terms of it, who may have no shell.
type offer struct {
	tools  []offered
	all    []*commands.Definition // what there is in a shell
	remote bool                   // whoever calls is on another machine, where some parameters are refused
}

// offered is a command with its name in an offer.
type offered struct {
	d    *commands.Definition
	name string
}

// advised returns the error of a call with the advice that its caller can follow.
func (o offer) advised(err error, d *commands.Definition, arguments json.RawMessage) error {
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
			return told.WithHint("These are parameters of %s: call that", other)
		}
	}
	return o.withoutShell(err)
}

// offerTo is what is offered over HTTP to a caller with the rights of an administrator, or without.
func offerTo(catalogue *commands.Catalogue, admin bool) offer {
	o := offer{all: catalogue.All(), remote: true}
	for _, d := range o.all {
		if _, is := cardFor(d, admin); is {
			o.tools = append(o.tools, offered{d, d.Name})
		}
	}
	return o
}

// cardFor returns the card of a command that is offered over MCP and HTTP to a caller with the rights of an administrator, or
// without; is tells whether it is offered.
func cardFor(d *commands.Definition, admin bool) (card *commands.Card, is bool) {
	card, err := d.Card()
	return card, err == nil && d.Remote() && (card.Rights == "self" || admin)
}

// withoutShell returns an error whose hint has names of the offer in place of lines for a shell. What a hint says of a command
// that is not offered is left out. If nothing else is left, the hint is for the person, unless it is only about what there is
// to see. What is not permitted here may be done in a shell, so that hint stays as it is.
func (o offer) withoutShell(err error) error {
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
		return told.WithHint("Only somebody on the daemon's machine can do that. %s", e.Hint)
	case shows:
		return told.WithHint("")
	}
	return told.WithHint("Tell the person who runs you: %s", e.Hint)
}

// quoted matches what stands in backquotes.
var quoted = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("`[^`]*`") })

// sentences takes a hint apart behind each ". " and "; " that does not stand in backquotes.
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

// nameOf returns the name of the command that a line for a shell runs, with its parameters in parentheses; "" if it is not
// offered. onlyThere tells that it is, but not with these parameters.
func (o offer) nameOf(line string) (name string, onlyThere bool) {
	d, rest := o.commandOf(line)
	i := slices.IndexFunc(o.tools, func(t offered) bool { return t.d == d })
	if i < 0 {
		return "", false
	}
	given, onlyThere := o.parametersOf(d, rest)
	if onlyThere {
		return "", true
	}
	if name = o.tools[i].name; given != nil {
		name += " (" + strings.Join(given, ", ") + ")"
	}
	return name, false
}

// commandOf returns the command that a line for a shell runs, and what follows its name; nil if none of the catalogue.
func (o offer) commandOf(line string) (d *commands.Definition, rest string) {
	longest := 0
	for _, other := range o.all {
		start := other.CommandLine()
		if behind, is := strings.CutPrefix(line+" ", start+" "); is && len(start) > longest {
			d, rest, longest = other, behind, len(start)
		}
	}
	return d, rest
}

// onlyShows reports whether the command that a line for a shell runs changes nothing.
func (o offer) onlyShows(line string) bool {
	d, _ := o.commandOf(line)
	if d == nil {
		return false
	}
	card, err := d.Card()
	return err == nil && card.OnlyReads()
}

// word matches a word of a line for a shell, as hints have them.
var word = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`) })

// parametersOf returns the parameters that stand behind a command's name in a line for a shell, each as "name: value".
// onlyThere tells that one of them is refused to whoever calls.
func (o offer) parametersOf(d *commands.Definition, rest string) (given []string, onlyThere bool) {
	arguments, words := positional(d), word().FindAllString(rest, -1)
	for i := 0; i < len(words); i++ {
		var p *commands.Param
		flag, value, has := strings.Cut(words[i], "=")
		if flag, is := strings.CutPrefix(flag, "--"); is {
			if n := slices.IndexFunc(d.Params(), func(p commands.Param) bool { return p.Flag() == flag }); n >= 0 {
				p = &d.Params()[n]
			}
			switch {
			case p != nil && p.Kind == commands.Boolean && !has:
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
			continue // a flag of the program, such as --db
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

// aboutUnknown is what an agent can do about a name that nobody has.
func (o offer) aboutUnknown(d *commands.Definition, e *orchestrator.Error) string {
	var advice []string
	if near, _ := e.Details["near"].([]string); len(near) > 0 {
		advice = append(advice, "Did you mean "+strings.Join(near, " or ")+"?")
	}
	for _, other := range o.tools {
		if other.d.IsListOfAgents() {
			advice = append(advice, other.name+" shows who is known.")
			break
		}
	}
	for _, p := range d.Params() {
		if p.Name == "hold_unknown" && e.Code == orchestrator.UnknownRecipient {
			advice = append(advice, "If "+orchestrator.Clip(e.Unknown)+" is still to come, send again with hold_unknown: the message waits until then.")
		}
	}
	if add, _ := o.nameOf("mailroom agent add"); add != "" {
		return strings.Join(append(advice, add+" adds an agent"), " ")
	}
	return strings.Join(append(advice, "Only the person who runs you adds agents"), " ")
}

// meant returns the tool of another vocabulary that has the same name in its document, if the parameters are its own: where
// several are served, some carry a prefix, of which a model that knows the document need not know.
func (o offer) meant(d *commands.Definition, arguments json.RawMessage) string {
	var given map[string]json.RawMessage
	if json.Unmarshal(arguments, &given) != nil || takesAll(d, given) {
		return ""
	}
	for _, other := range o.tools {
		if other.d != d && other.d.Tool == d.Tool && takesAll(other.d, given) {
			return other.name
		}
	}
	return ""
}

// takesAll reports whether a command has a parameter for every key.
func takesAll(d *commands.Definition, given map[string]json.RawMessage) bool {
	known := map[string]bool{}
	for _, p := range d.Params() {
		known[p.Name] = true
	}
	for key := range given {
		if !known[key] {
			return false
		}
	}
	return true
}

// withNames is a middleware that tells a client that calls a tool by its document's name what its name is here.
func (o offer) withNames(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		call, ok := req.(*mcp.CallToolRequest)
		if err == nil || !ok {
			return result, err
		}
		known, here := false, ""
		for _, other := range o.tools {
			known = known || other.name == call.Params.Name
			if other.d.Tool == call.Params.Name {
				here = other.name
			}
		}
		if known || here == "" {
			return result, err
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q: its name is %s here", call.Params.Name, here)}
	}
}
