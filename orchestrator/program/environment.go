package program

import (
	"fmt"
	"slices"
	"strings"

	"mailroom/orchestrator/pattern"
)

// SlotFolder returns the folder beside a database that holds the slots of its agents' commands and the output of
// sessions. Slots must not be removed while a command runs.
func SlotFolder(database string) string { return database + "-slots" }

// MaxValue is the maximum length of a value in Command.Env, in bytes. Linux does not start a program with a
// variable of 128 KiB or more, name included.
const MaxValue = 120 << 10

// Our own environment contains secrets: the password of the database and the keys of the trace receiver. A command
// gets a secret only if its agent's list names it exactly. A command never gets variables that describe the message
// for which our own process was started.

// isSecret reports whether a variable holds a secret of ours.
func isSecret(name string) bool {
	return name == "PGPASSWORD" || name == "PGSSLPASSWORD" ||
		strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "HEADERS")
}

// isOfMessage reports whether a variable describes a message. MAILROOM_HOST_NAME does not.
func isOfMessage(name string) bool {
	return strings.HasPrefix(name, "MAILROOM_") && name != "MAILROOM_HOST_NAME" || name == "TRACEPARENT" ||
		name == "TRACESTATE"
}

// usual lists the variables that every command gets because nearly every program needs them.
var usual = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LC_*", "XDG_*",
	"MAILROOM_HOST_NAME"}

// passable matches an entry of a list: a name, or a prefix followed by *.
var passable = pattern.New(`^([A-Za-z_][A-Za-z0-9_]*\*?|\*)$`)

// CheckPasses converts a comma-separated list of variables to canonical form. An entry is a name, or a prefix of
// names followed by *. The error names the invalid entry.
func CheckPasses(list string) (string, error) {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
			continue
		case !passable().MatchString(name):
			return "", fmt.Errorf("%q is not a valid variable name", name)
		case isOfMessage(strings.TrimSuffix(name, "*")):
			return "", fmt.Errorf("%s is reserved: Mailroom sets the variable for each message", name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ","), nil
}

// Passes reports whether a command whose agent has this list gets a variable of our own environment. "" is no list.
func Passes(list, name string) bool {
	names := strings.Split(list, ",")
	switch {
	case isOfMessage(name):
		return false
	case isSecret(name):
		return slices.Contains(names, name) // a pattern does not include secrets
	case list == "":
		return true
	}
	return slices.ContainsFunc(append(names, usual...), func(entry string) bool {
		begin, pattern := strings.CutSuffix(entry, "*")
		return entry == name || pattern && strings.HasPrefix(name, begin)
	})
}

// environment returns the variables that a command gets of our own environment, followed by the given ones.
func environment(ours []string, list string, given []string) (env []string) {
	for _, variable := range ours {
		if name, _, _ := strings.Cut(variable, "="); Passes(list, name) {
			env = append(env, variable)
		}
	}
	for _, variable := range given {
		name, value, _ := strings.Cut(variable, "=")
		env = append(env, name+"="+storable(value))
	}
	return env
}

// storable converts a text to a valid value of an environment variable.
func storable(value string) string {
	value = strings.ReplaceAll(value, "\x00", "\uFFFD")
	if len(value) > MaxValue {
		value = strings.ToValidUTF8(value[:MaxValue], "")
	}
	return value
}
