package commands

import (
	"fmt"
	"reflect"

	"mailroom/orchestrator"
)

// OnlyHere returns the error for a remote caller that tries to choose what only the daemon's own machine may decide:
// the files and programs that are used there, and the addresses to which it connects. subject is what the caller
// asked for, parameter is the parameter that did so, and commandLine is the command to run on that machine instead.
func OnlyHere(parameter, subject, commandLine string) error {
	e := orchestrator.Errorf(orchestrator.PermissionDenied,
		"%s: remote callers cannot choose which files, programs, and addresses the daemon's machine uses",
		subject).
		WithHint("Run `%s` on the daemon's machine", commandLine)
	e.Details = map[string]any{"parameter": parameter}
	return e
}

// onlyHere returns an error if a remote caller gives a parameter a value that its tag remote does not list. params is
// the struct of the command's parameters.
func (d *Definition) onlyHere(caller Caller, params any) error {
	if !caller.Remote {
		return nil
	}
	for i := range d.Params() {
		p := &d.Params()[i]
		value := p.Value(params)
		if p.Remote == nil || value.IsZero() {
			continue
		}
		if p.OnlyHere(fmt.Sprint(reflect.Indirect(value))) {
			return OnlyHere(p.Name, p.Name, d.CommandLine())
		}
	}
	return nil
}
