package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
)

// TestFilesAreMendedIfAsked checks that another machine gets the state of the hosts here, and that their files are
// repaired only for a line that asks for it.
func TestFilesAreMendedIfAsked(t *testing.T) {
	t.Parallel()
	mended := 0
	p := &Program{Getenv: func(string) string { return "" }}
	p.Connections = func(_ context.Context, env commands.Env, mend bool) overview.Findings {
		if mend {
			mended++
		}
		return overview.Findings{{Says: env.Database()}}
	}
	for _, test := range []struct {
		named    []string
		question string
		answered bool
	}{
		{nil, commands.Connections, true}, {nil, commands.MendConnections, false}, {[]string{"quick"}, commands.MendConnections, false},
		{[]string{"try"}, commands.MendConnections, true}, {[]string{"try"}, "anything else", false},
	} {
		text, err := p.connectionsAnswers(t.Context(), &line{named: test.named}, "ssh://studio", remote.Place{}, nil)(test.question)
		if answered := err == nil && strings.Contains(string(text), "ssh://studio"); answered != test.answered {
			t.Errorf("%q with %q is answered with %q, %v", test.question, test.named, text, err)
		}
	}
	want.Equal(t, "times that files were mended", mended, 1)
}

// TestOneRefusalIsNoted checks that another machine can record one refusal per line, with the line's own place.
func TestOneRefusalIsNoted(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	p := &Program{Getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }}
	answer := p.ownerAnswers("ssh://studio")
	for _, host := range []string{"codex", "gemini"} {
		text, err := json.Marshal(agenthost.Refusal{Host: "claude", Seen: agenthost.Seen{Host: host, By: strings.Repeat("x", 1000)},
			Database: "/tmp/other.db"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := answer(refusedQuestion + string(text)); err != nil {
			t.Error(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(state, "mailroom", "refused", "*"))
	want.Equal(t, "files", len(files), 1)
	text, err := os.ReadFile(files[0])
	var kept agenthost.Refusal
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "host", kept.Seen.Host, "codex")
	want.Equal(t, "how it was recognized", kept.Seen.By, orchestrator.Clip(strings.Repeat("x", 1000)))
	want.Equal(t, "database", kept.Database, "ssh://studio")
}
