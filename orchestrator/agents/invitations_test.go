package agents_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/removal"
)

// An invitation is exchanged for a token once, even if several try at once, and not after it expired or for another
// name. It is not a token itself.
func TestInvitations(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "alice", "carol")
	invite := func(agent string) string {
		t.Helper()
		code, _, err := agents.Invite(t.Context(), f.Ledger, agent)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	accept := func(agent, code string) (string, orchestrator.Code) {
		secret, token, err := agents.AcceptInvitation(t.Context(), f.Ledger, agent, code)
		if err == nil {
			known, err := agents.Authenticate(t.Context(), f.Ledger, secret)
			if err != nil || known != token || known.Agent != agent || known.Admin != (agent == orchestrator.Operator) {
				t.Errorf("the token is of %+v, %v", known, err)
			}
			return secret, ""
		}
		return secret, orchestrator.CodeOf(err)
	}
	code := invite("alice")
	for _, credential := range []string{code, "join:alice:" + code, "mailroom_" + code} {
		_, err := agents.Authenticate(t.Context(), f.Ledger, credential)
		want.Code(t, err, orchestrator.Unauthenticated)
	}
	for agent, code := range map[string]string{"carol": code, "alice": code + "A", "": code, "operator": code, "join:alice": code,
		strings.Repeat("a", 200): code} {
		_, is := accept(agent, code)
		want.Equal(t, agent, is, orchestrator.Unauthenticated)
	}
	var mu sync.Mutex
	outcomes := map[orchestrator.Code]int{}
	secret := ""
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got, is := accept("alice", code)
			mu.Lock()
			defer mu.Unlock()
			if outcomes[is]++; is == "" {
				secret = got
			}
		})
	}
	all.Wait()
	want.Equal(t, "those who got it", outcomes[""], 1)
	want.Equal(t, "those who were too late", outcomes[orchestrator.Conflict], 7)
	tokens, err := agents.Tokens(t.Context(), f.Ledger, "")
	want.Equal(t, "error", err, nil)
	want.Equal(t, "tokens that are listed", len(tokens), 1)

	late := invite("alice")
	f.Clock.Advance(agents.InvitationLife + time.Millisecond)
	_, is := accept("alice", late)
	want.Equal(t, "after its time", is, orchestrator.Unauthenticated)
	if err := agents.EndToken(t.Context(), f.Ledger, secret); err != nil {
		t.Fatal(err)
	}
	_, err = agents.Authenticate(t.Context(), f.Ledger, secret)
	want.Code(t, err, orchestrator.Unauthenticated)

	open := invite("carol")
	if _, err := agents.RevokeTokens(t.Context(), f.Ledger, "carol"); err != nil {
		t.Fatal(err)
	}
	_, is = accept("carol", open)
	want.Equal(t, "an invitation that was revoked", is, orchestrator.Unauthenticated)
	open = invite("gina") // not known yet
	n, err := agents.RevokeTokens(t.Context(), f.Ledger, "gina")
	want.Equal(t, "error", err, nil)
	want.Equal(t, "invitations that were revoked", n, int64(1))
	_, is = accept("gina", open)
	want.Equal(t, "of an agent that is not there", is, orchestrator.Unauthenticated)
	open = invite("carol")
	if _, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "carol"}); err != nil {
		t.Fatal(err)
	}
	_, is = accept("carol", open)
	want.Equal(t, "of an agent that was removed", is, orchestrator.Unauthenticated)
	if _, _, err := agents.Invite(t.Context(), f.Ledger, "carol"); orchestrator.CodeOf(err) != orchestrator.Conflict {
		t.Error(err)
	}
	for _, name := range []string{"system", "user", "no name", ""} {
		_, _, err := agents.Invite(t.Context(), f.Ledger, name)
		want.Code(t, err, orchestrator.InvalidParams)
	}
	_, is = accept(orchestrator.Operator, invite(orchestrator.Operator))
	want.Equal(t, "the person's second machine", is, orchestrator.Code(""))
}
