package orchestrator

import (
	"slices"
	"strings"
)

// RolePrefix begins a recipient that stands for every agent of a role, as in role:reviewer.
const RolePrefix = "role:"

// maxRole is the longest role, in bytes.
const maxRole = 256

// CheckRecipient folds and checks whom a message is sent to: the name of an agent or a group, see CheckName, or role:ROLE,
// which is every agent whose role is that text, whatever the case of its letters. Error: invalid_params.
func CheckRecipient(kind, recipient string) (string, error) {
	role, is := strings.CutPrefix(recipient, RolePrefix)
	if !is {
		return CheckName(kind, recipient)
	}
	role = foldRole(role)
	if role == "" || len(role) > maxRole {
		return "", Errorf(InvalidParams, "%q names no role: a role has 1 to %d bytes", Clip(recipient), maxRole).
			WithHint("Write it as in %sreviewer; `mailroom agent list` shows the roles that there are", RolePrefix)
	}
	return RolePrefix + role, checkPlain("the role", role)
}

func foldRole(role string) string { return strings.ToLower(strings.TrimSpace(role)) }

// withRole picks those of the agents that have the role which a recipient names.
func (conf *config) withRole(names []string, recipient string) (with []string) {
	role := strings.TrimPrefix(recipient, RolePrefix)
	for _, name := range names {
		if a := conf.agents[name]; a != nil && foldRole(a.Role) == role {
			with = append(with, name)
		}
	}
	return with
}

// nobodyIn is the error for a recipient that stands for several agents, and has none.
func (conf *config) nobodyIn(recipient string) error {
	role, is := strings.CutPrefix(recipient, RolePrefix)
	if !is {
		return Errorf(InvalidParams, "the group %s has no members", recipient).WithHint("Add some with `mailroom group add %s AGENT`", recipient)
	}
	var known []string
	for _, name := range conf.names {
		if has := foldRole(conf.agents[name].Role); has != "" && !slices.Contains(known, has) {
			known = append(known, has)
		}
	}
	slices.Sort(known)
	e := Errorf(UnknownRecipient, "no agent has the role %q", Clip(role))
	if len(known) == 0 {
		return e.WithHint("No agent has a role yet; `mailroom agent add NAME --role %s` gives one", Clip(role))
	}
	shown := known[:min(len(known), 20)]
	e.Details = map[string]any{"roles": shown}
	return e.WithHint("The roles are: %s", strings.Join(shown, ", "))
}
