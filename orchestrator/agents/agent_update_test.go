package agents_test

import (
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// The commands of an agent run in one folder. An update from another folder does not move a command that it does
// not set, and does not leave behind one that it sets.
func TestFolderOfCommands(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	one, two := t.TempDir(), t.TempDir()
	update := func(folder string, deliver, start *string) error {
		_, _, err := agents.Add(t.Context(), f.Ledger,
			agents.Update{Name: "b", Folder: folder, Deliver: deliver, StartCommand: start})
		return err
	}
	folder := func(want string) {
		t.Helper()
		if got := f.Agent("b").Folder; got != want {
			t.Errorf("the folder is %q; want %q", got, want)
		}
	}
	for _, step := range []struct {
		folder         string
		deliver, start *string
		code           orchestrator.Code
		then           string
	}{
		{one, new("inbox"), nil, "", ""},
		{one, new("exec:true"), nil, "", one},
		{two, nil, new("true"), orchestrator.Conflict, one},
		{one, nil, new("true"), "", one},
		{two, new("exec:true"), nil, orchestrator.Conflict, one},
		{two, new("exec:true"), new("true"), "", two},
		{one, nil, nil, "", two},
		{one, new("inbox"), nil, "", two},
		{one, new("exec:true"), new(""), "", one},
		{two, nil, new(""), "", one},
	} {
		if err := update(step.folder, step.deliver, step.start); orchestrator.CodeOf(err) != step.code &&
			(err != nil || step.code != "") {
			t.Errorf("%+v: %v", step, err)
		}
		folder(step.then)
	}
}

// A private address must be allowed, and the permission is for that address only.
func TestPrivateAddressesAreAllowedOneByOne(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	update := func(u agents.Update) error {
		u.Name = "b"
		_, _, err := agents.Add(t.Context(), f.Ledger, u)
		return err
	}
	private, other := new("webhook:http://127.0.0.1:9/"), new("webhook:http://127.0.0.1:10/")
	want.Code(t, update(agents.Update{Deliver: private}), orchestrator.InvalidParams)
	if err := update(agents.Update{Deliver: private, AllowPrivate: new(true)}); err != nil {
		t.Fatal(err)
	}
	if err := update(agents.Update{Deliver: private, Role: new("still")}); err != nil || !f.Agent("b").AllowPrivate {
		t.Errorf("the same address: %v, allowed %v", err, f.Agent("b").AllowPrivate)
	}
	want.Code(t, update(agents.Update{Deliver: other}), orchestrator.InvalidParams)
	want.Code(t, update(agents.Update{AllowPrivate: new(false)}), orchestrator.InvalidParams)
	if err := update(agents.Update{Deliver: new("webhook:https://example.com/")}); err != nil ||
		f.Agent("b").AllowPrivate {
		t.Errorf("a public address: %v, private ones allowed: %v", err, f.Agent("b").AllowPrivate)
	}
}
