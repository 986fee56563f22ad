package orchestrator_test

import (
	"testing"

	"mailroom/orchestrator"
)

// The commands of an agent run in one folder. An update from another folder moves none that it does not name, and none
// that it names stays behind.
func TestFolderOfCommands(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two := t.TempDir(), t.TempDir()
	update := func(folder string, deliver, start *string) error {
		_, _, err := f.AddAgent(t.Context(), orchestrator.AgentUpdate{Name: "b", Folder: folder, Deliver: deliver, StartCommand: start})
		return err
	}
	folder := func(want string) {
		t.Helper()
		if got := f.agent("b").Folder; got != want {
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
		if err := update(step.folder, step.deliver, step.start); orchestrator.CodeOf(err) != step.code && (err != nil || step.code != "") {
			t.Errorf("%+v: %v", step, err)
		}
		folder(step.then)
	}
}
