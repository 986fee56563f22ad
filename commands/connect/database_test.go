package connect

import (
	"context"
	"encoding/json"
	"testing"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/want"
)

// An answer from another machine is written into a file only if it is a name, and never in place of the requested
// name.
func TestAnotherMachineSaysTheName(t *testing.T) {
	d := newDesk(t)
	d.env.Engine, d.env.Distant = nil, &commands.Distant{Name: "ssh://studio/~/shop.db", State: t.TempDir()}
	before := len(tree(t, d.project))
	for _, test := range []struct{ as, says, is string }{
		{"", "claude-2", "claude-2"}, {"alice", "mallory", "alice"}, {"", "x --db /tmp/theirs.db", ""}, {"", "x\n\"y", ""},
	} {
		d.env.Distant.Run = func(_ context.Context, _ string, _, result any) error {
			text, err := orchestrator.JSON(Facts{Agent: test.says})
			if err != nil {
				return err
			}
			return json.Unmarshal(text, result)
		}
		r, err := d.try(test.as, `{"host":"claude"}`)
		want.Equal(t, "the agent of "+test.says, r.Agent, test.is)
		if test.is == "" {
			want.Equal(t, test.says, orchestrator.CodeOf(err), orchestrator.InvalidParams)
			want.Equal(t, "files", len(tree(t, d.project)), before)
		} else if err != nil {
			t.Error(err)
		}
		if _, err := d.try("", `{"host":"claude","remove":true}`); err != nil {
			t.Error(err)
		}
	}
}
