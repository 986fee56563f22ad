package orchestrator

import (
	"slices"
	"strings"

	"mailroom/orchestrator/nearest"
)

// maxName is the maximum length of an agent or group name, in bytes.
const maxName = 57

// Operator is the name of a user at a shell of this machine who does not say whom they act as. The operator has an
// inbox like an agent, always exists, and belongs to no group or team. The name does not prove that a person acts:
// anyone who can open the database file can act as the operator. Over the network, only a console session can; such
// a session is admitted by someone who can open the file.
const Operator = "operator"

// User is the name of the person who runs the agents. User is not an agent: nobody acts under this name and it
// belongs to no group, but anyone can write to it. Its transport, `person`, turns a message into a question or an
// alert for that person's devices. Source: signal.md, "Life of a question".
const User = "user"

// BuiltIns describes the names that always exist and are not agents.
var BuiltIns = map[string]string{
	Operator: "the person who runs commands in a shell on this machine",
	User:     "the person who runs the agents and answers on a phone",
}

// Auto stands for a separate agent for each process of an agent host; see hosts.NameOf.
const Auto = "auto"

// IsBuiltIn reports whether name is Operator or User, which always exist and are not agents.
func IsBuiltIn(name string) bool { return BuiltIns[name] != "" }

// ReservedNames lists the names that no agent can have, because their inbox views would clash with tables or
// because they have another meaning.
var ReservedNames = []string{"agent", Auto, Everyone, User, Operator, SystemSender}

// CheckName checks the name of an agent or a group and returns it in lower case. A name is a letter followed by up
// to 56 letters, digits, '_' or '-'; case does not matter. The error, invalid_params, calls the name by its kind,
// such as "recipient".
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

// plainName returns a hint for text that contains names but is not one, such as "@bob" or "bob,". Otherwise it
// returns "".
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

// FoldName returns name with its ASCII letters in lower case. It leaves other letters unchanged, so that no two
// names that look different become the same: U+212A, the Kelvin sign, does not become k.
func FoldName(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, name)
}

// CheckNewName checks name as CheckName does, and returns an error if the name is reserved.
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

// DidYouMean returns a hint with the known names most similar to name, or "" if none is similar.
func DidYouMean(name string, known []string) string {
	if near := nearest.Nearest(name, known); len(near) > 0 {
		return "Did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}

// WithUnknown records that the failure is about an unknown name, adds the known names most similar to it, and
// returns e.
func (e *Error) WithUnknown(name string, known []string) *Error {
	e.Unknown = name
	if near := nearest.Nearest(name, known); len(near) > 0 {
		e.Details = map[string]any{"near": near}
	}
	return e
}

// AddIt returns a hint how to add an agent with a name that does not exist yet.
func AddIt(name string) string {
	if slices.Contains(ReservedNames, FoldName(name)) {
		return "The name is reserved, so an agent cannot have it"
	}
	if !CanBeAgent(name) {
		return NoAgentsName
	}
	return "To add the agent, run `mailroom agent add " + name + "`"
}

// MeantOrAdd returns the hint for an unknown agent name: the known names most similar to it, and how to add the
// agent.
func MeantOrAdd(name string, known []string) string {
	return strings.TrimSpace(DidYouMean(name, known) + " " + AddIt(name))
}

// RolePrefix begins a recipient that stands for every agent with a role, as in role:reviewer.
const RolePrefix = "role:"

// maxRole is the maximum length of a role, in bytes.
const maxRole = 256

// CheckRecipient checks a recipient and returns it as it is stored: the name of an agent or a group (see
// CheckName), or role:ROLE for every agent with a role. Error: invalid_params.
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
