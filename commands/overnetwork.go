package commands

import (
	"fmt"
	"reflect"

	"mailroom/orchestrator"
)

// OnlyHere is the error for a caller over the network that asks for what is decided on the daemon's own machine: the
// files and programs that are used there, and where it connects to. subject is what was asked for, parameter the one
// that did so, and commandLine what to run there instead.
func OnlyHere(parameter, subject, commandLine string) error {
	e := orchestrator.Errorf(orchestrator.PermissionDenied,
		"%s: remote callers cannot choose which files, programs, and addresses the daemon's machine uses",
		subject).
		WithHint("Run `%s` on the daemon's machine", commandLine)
	e.Details = map[string]any{"parameter": parameter}
	return e
}

// onlyHere refuses a caller over the network the values that the tag remote of a parameter does not list. params is the
// struct of the command's parameters.
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
