package orchestrator

import "strings"

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
		return "", Errorf(InvalidParams, "%q names no role: a role has 1 to %d bytes", Clip(recipient), maxRole).
			WithHint("Write it as in %sreviewer; `mailroom agent list` shows the roles that there are", RolePrefix)
	}
	return RolePrefix + role, CheckPlain("the role", role)
}

// FoldRole returns a role in the form in which roles are compared.
func FoldRole(role string) string { return strings.ToLower(strings.TrimSpace(role)) }
