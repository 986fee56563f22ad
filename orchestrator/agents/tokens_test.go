package agents_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/store"
)

// A token is valid until it expires, is revoked, or its agent is removed, each with immediate effect in every
// process. Only the whole token is accepted.
func TestTokens(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	other := f.Open()
	issue := func(agent string, admin bool, lifetime time.Duration) string {
		t.Helper()
		secret, token, err := agents.IssueToken(t.Context(), f.Ledger, agent, admin, lifetime)
		if err != nil {
			t.Fatal(err)
		}
		for name, r := range map[string]*delivery.Engine{"this process": f.Engine, "another": other} {
			if known, err := agents.Authenticate(t.Context(), r.Ledger, secret); err != nil || known != token ||
				known.Agent != agent || known.Admin != admin {
				t.Fatalf("%s knows %+v, %v; want %+v", name, known, err, token)
			}
		}
		return secret
	}
	_, why := agents.Authenticate(t.Context(), f.Ledger, "")
	refused := func(what, secret string) {
		t.Helper()
		for _, r := range []*delivery.Engine{f.Engine, other} {
			token, err := agents.Authenticate(t.Context(), r.Ledger, secret)
			want.Code(t, err, orchestrator.Unauthenticated)
			if token != (agents.Token{}) {
				t.Errorf("%s: refused, and answered with %+v", what, token)
			}
			want.Equal(t, what, err.Error(), why.Error()) // the same for all, so that it reveals nothing
		}
	}
	forever, hour, kept, admin := issue("a", false, 0), issue("a", false, time.Hour), issue("b", false, 0),
		issue("newcomer", true, 0)
	for what, secret := range map[string]string{
		"nothing": "", "a prefix": "mailroom_", "one letter less": forever[:len(forever)-1], "one more": forever + "A",
		"without its prefix": strings.TrimPrefix(forever, "mailroom_"), "its id": rowsOfTokens(f)[0],
		"very long": "mailroom_" + strings.Repeat("A", 1<<20),
	} {
		refused(what, secret)
	}
	f.Clock.Advance(time.Hour - time.Millisecond)
	if _, err := agents.Authenticate(t.Context(), f.Ledger, hour); err != nil {
		t.Errorf("a moment before it expires: %v", err)
	}
	f.Clock.Advance(time.Millisecond)
	refused("expired", hour)
	if n, err := agents.RevokeTokens(t.Context(), other.Ledger, "A"); err != nil || n != 2 {
		t.Errorf("revoked %d, %v", n, err)
	}
	refused("revoked by another process", forever)
	if n, err := agents.RevokeTokens(t.Context(), other.Ledger, "a"); err != nil || n != 0 {
		t.Errorf("revoked %d twice, %v", n, err)
	}
	if _, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	refused("of an agent that was removed", kept)
	f.Add(agents.Update{Name: "b"})
	refused("of an agent that was added anew", kept)
	if _, err := agents.Authenticate(t.Context(), f.Ledger, admin); err != nil {
		t.Errorf("the one of nobody's: %v", err)
	}
	neverStored(f, forever, hour, kept, admin)
}

// rowsOfTokens returns the IDs of the tokens.
func rowsOfTokens(f *enginetest.Fixture) (ids []string) {
	f.T.Helper()
	tokens, err := agents.Tokens(f.T.Context(), f.Ledger, "")
	if err != nil {
		f.T.Fatal(err)
	}
	for _, token := range tokens {
		ids = append(ids, token.ID)
	}
	return ids
}

// neverStored fails if a secret is in any file of the database's folder, or if an audit query can read the table of
// tokens.
func neverStored(f *enginetest.Fixture, secrets ...string) {
	f.T.Helper()
	files, err := filepath.Glob(f.Path + "*")
	if err != nil || len(files) == 0 && !f.OnServer() {
		f.T.Fatal(files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // a socket
		}
		for _, secret := range secrets {
			if strings.Contains(string(content), strings.TrimPrefix(secret, "mailroom_")) {
				f.T.Errorf("%s holds a token", file)
			}
		}
	}
	if table, err := f.Query(f.T.Context(), `SELECT * FROM tokens`, store.Bound{Rows: 1}); err == nil {
		f.T.Errorf("an audit query can read the tokens: %v", table)
	}
}

// A refusal to issue a token gives the reason.
func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "team", []string{"a"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		agent    string
		lifetime time.Duration
	}{{"team", 0}, {"system", 0}, {"no name", 0}, {"", 0}, {"a", -time.Second}, {"a", 3651 * 24 * time.Hour}} {
		_, _, err := agents.IssueToken(t.Context(), f.Ledger, c.agent, false, c.lifetime)
		want.Code(t, err, orchestrator.InvalidParams)
	}
	want.Equal(t, "tokens", len(rowsOfTokens(f)), 0)
}

// No token acts as the operator or the user: none is issued, and one from before the name was reserved is refused.
func TestNoTokenForABuiltInName(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "boss")
	secret, _, err := agents.IssueToken(t.Context(), f.Ledger, "boss", true, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"operator", "Operator", "user"} {
		_, _, err := agents.IssueToken(t.Context(), f.Ledger, name, false, 0)
		want.Code(t, err, orchestrator.InvalidParams)
	}
	if _, err := enginetest.Plain(t, f.Path).Exec(`UPDATE tokens SET agent = 'operator'`); err != nil {
		t.Fatal(err)
	}
	_, err = agents.Authenticate(t.Context(), f.Ledger, secret)
	want.Code(t, err, orchestrator.Unauthenticated)
}

// RevokeToken revokes one token by its ID, and no other.
func TestRevokeToken(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	first, token, err := agents.IssueToken(t.Context(), f.Ledger, "a", false, 0)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := agents.IssueToken(t.Context(), f.Ledger, "a", true, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, valid := range []bool{true, false} {
		revoked, was, err := agents.RevokeToken(t.Context(), f.Ledger, token.ID)
		if err != nil || was != valid || revoked.Agent != "a" || revoked.RevokedAt == "" {
			t.Errorf("revoked %+v, valid until now: %t, %v", revoked, was, err)
		}
	}
	_, err = agents.Authenticate(t.Context(), f.Ledger, first)
	want.Code(t, err, orchestrator.Unauthenticated)
	if _, err := agents.Authenticate(t.Context(), f.Ledger, second); err != nil {
		t.Error(err)
	}
	for _, id := range []string{token.ID[:11] + "x", token.ID[:11], ""} {
		_, _, err := agents.RevokeToken(t.Context(), f.Ledger, id)
		want.Code(t, err, orchestrator.NotFound)
	}
}
