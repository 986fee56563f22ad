package orchestrator

import (
	"slices"
	"strings"

	"mailroom/orchestrator/nearest"
)

// maxName is the longest agent or group name, in bytes.
const maxName = 57

// Operator is the name of whoever types in a shell of this machine without saying as whom. It has an inbox as agents
// have, is always there and belongs to no group or team. It is no proof of a person: who can open the file can act as
// it. Over the network only a session of the console does, to which whoever can open the file has let a browser in.
const Operator = "operator"

// User is the name of the person who runs the agents. It is no agent: nobody acts under it, and it belongs to no group,
// but anybody can write to it. Its transport, `person`, turns a message into a question or an alert for that
// person's devices. Source: signal.md, "Life of a question".
const User = "user"

// BuiltIns says who is behind the names that always exist and are no agents.
var BuiltIns = map[string]string{
	Operator: "the person who runs commands in a shell on this machine",
	User:     "the person who runs the agents and answers on a phone",
}

// Auto stands for an agent of its own for each process of an agent host; see hosts.NameOf.
const Auto = "auto"

// IsBuiltIn reports whether a name is that of the operator or the user, who are always there and are no agents.
func IsBuiltIn(name string) bool { return BuiltIns[name] != "" }

// ReservedNames are names that no agent can have: their inbox views would clash with tables, or they mean something
// else.
var ReservedNames = []string{"agent", Auto, Everyone, User, Operator, SystemSender}

// CheckName checks the name of an agent or a group, and returns it in lower case. A name is a letter, then up to 56
// letters, digits, '_' or '-'; case does not matter. kind names it in the error, such as "recipient". Error:
// invalid_params.
func CheckName(kind, name string) (string, error) {
	if len(name) > maxName {
		return "", Errorf(InvalidParams, "the %s name has %d bytes, but the limit is %d", kind, len(name), maxName)
	}
	folded := FoldName(name)
	if !IsName(folded) {
		return "", Errorf(InvalidParams, "%q is not a valid name: a name starts with a letter, followed by letters, digits, '_', or '-'", name).
			WithHint("%s", plainName(folded))
	}
	return folded, nil
}

// plainName is the hint for what is not a name but holds one, as in "@bob" and "bob,"; "" if it is none of these.
func plainName(text string) string {
	words := strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ';' || c == ' ' })
	for i, word := range words {
		if words[i] = strings.Trim(word, "@<>:"); !IsName(words[i]) {
			return ""
		}
	}
	switch {
	case len(words) == 1:
		return "Did you mean " + words[0] + "?"
	case len(words) > 1 && strings.ContainsAny(text, ",;"):
		return "To send to several agents, create a group: `mailroom group set NAME " + strings.Join(words, " ") + "`"
	}
	return ""
}

// FoldName returns a name with its ASCII letters in lower case. Other letters stay as they are, so that no two names
// that look different become one: U+212A, the Kelvin sign, is no k.
func FoldName(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, name)
}

// CheckNewName checks a name as CheckName does, and that an agent or a group may be given it: some names are reserved.
func CheckNewName(kind, name string) (string, error) {
	folded, err := CheckName(kind, name)
	if err != nil {
		return "", err
	}
	if slices.Contains(ReservedNames, folded) || strings.HasPrefix(folded, "sqlite_") {
		return "", Errorf(InvalidParams, "%q is a reserved name and cannot be used for the %s", folded, kind)
	}
	return folded, nil
}

// NoAgentsName begins the advice about a message whose recipient has a name that no agent can have.
const NoAgentsName = "No agent can have that name"

// CanBeAgent reports whether an agent can have this name.
func CanBeAgent(name string) bool {
	_, err := CheckNewName("agent", name)
	return err == nil
}

// IsName reports whether a text has the form of a name; see CheckName.
func IsName(s string) bool {
	return s != "" && len(s) <= maxName && s[0] >= 'a' && s[0] <= 'z' &&
		strings.Trim(s, "-0123456789_abcdefghijklmnopqrstuvwxyz") == ""
}

// DidYouMean returns the hint for a name that nobody has: the known names that are most similar to it.
func DidYouMean(name string, known []string) string {
	if near := nearest.Nearest(name, known); len(near) > 0 {
		return "Did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}

// WithUnknown notes that the failure is about a name that nobody has, with the known names that are most similar to it,
// and returns e.
func (e *Error) WithUnknown(name string, known []string) *Error {
	e.Unknown = name
	if near := nearest.Nearest(name, known); len(near) > 0 {
		e.Details = map[string]any{"near": near}
	}
	return e
}

// AddIt returns the hint how to add an agent, for a name that nobody has yet.
func AddIt(name string) string {
	if slices.Contains(ReservedNames, FoldName(name)) {
		return "The name is reserved, so an agent cannot have it"
	}
	if !CanBeAgent(name) {
		return NoAgentsName
	}
	return "To add the agent, run `mailroom agent add " + name + "`"
}

// MeantOrAdd returns the hint for the name of an agent that nobody has: the known names that are most similar to it,
// and how to add it.
func MeantOrAdd(name string, known []string) string {
	return strings.TrimSpace(DidYouMean(name, known) + " " + AddIt(name))
}

// RolePrefix begins a recipient that stands for every agent of a role, as in role:reviewer.
const RolePrefix = "role:"

// maxRole is the longest role, in bytes.
const maxRole = 256

// CheckRecipient checks whom a message is for, and returns that as it is stored: the name of an agent or a group, see
// CheckName, or role:ROLE for every agent of a role. Error: invalid_params.
func CheckRecipient(kind, recipient string) (string, error) {
	role, is := strings.CutPrefix(recipient, RolePrefix)
	if !is {
		return CheckName(kind, recipient)
	}
	role = FoldRole(role)
	if role == "" || len(role) > maxRole {
		return "", Errorf(InvalidParams, "%q is not a valid role: a role must have 1 to %d bytes", Clip(recipient), maxRole).
			WithHint("Use the form %sreviewer. To list the roles, run `mailroom agent list`", RolePrefix)
	}
	return RolePrefix + role, CheckPlain("the role", role)
}

// FoldRole returns a role in the form in which roles are compared.
func FoldRole(role string) string { return strings.ToLower(strings.TrimSpace(role)) }
