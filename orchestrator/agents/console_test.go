package agents_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// A console code becomes one session, which acts as the operator until it expires or is revoked.
func TestConsoleSession(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "boss")
	code := issueCode(f)
	want.Equal(t, "what a list shows of a code", len(rowsOfTokens(f)), 0)
	secret, session, err := agents.OpenSession(t.Context(), f.Ledger, code)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*delivery.Engine{f.Engine, f.Open()} {
		known, err := agents.Authenticate(t.Context(), e.Ledger, secret)
		if err != nil || known != session || known.Agent != orchestrator.Operator || !known.Admin {
			t.Fatalf("it is known as %+v, %v; want %+v", known, err, session)
		}
	}
	want.Equal(t, "the sessions", strings.Join(rowsOfTokens(f), " "), session.ID)
	neverStored(f, code, secret)

	f.Clock.Advance(12*time.Hour - time.Millisecond)
	if _, err := agents.Authenticate(t.Context(), f.Ledger, secret); err != nil {
		t.Errorf("a moment before it runs out: %v", err)
	}
	f.Clock.Advance(time.Millisecond)
	_, err = agents.Authenticate(t.Context(), f.Ledger, secret)
	want.Code(t, err, orchestrator.Unauthenticated)
	issueCode(f)
	want.Equal(t, "sessions that have run out, after a new code", len(rowsOfTokens(f)), 0)
}

// A code waits until it is exchanged, and for a minute at most.
func TestCodeWaits(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	waits := func(code string) bool {
		waits, err := agents.CodeWaits(t.Context(), f.Ledger, code)
		if err != nil {
			t.Fatal(err)
		}
		return waits
	}
	used, late := issueCode(f), issueCode(f)
	want.Equal(t, "two codes", waits(used) && waits(late), true)
	if _, _, err := agents.OpenSession(t.Context(), f.Ledger, used); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "the one that was used", waits(used), false)
	f.Clock.Advance(agents.CodeLife)
	want.Equal(t, "the one that has run out", waits(late), false)
}

// A code works once and for a minute, and is not a token; a token is not a code.
func TestCodesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "boss")
	agent, _, err := agents.IssueToken(t.Context(), f.Ledger, "boss", true, 0)
	if err != nil {
		t.Fatal(err)
	}
	used := issueCode(f)
	session, _, err := agents.OpenSession(t.Context(), f.Ledger, used)
	if err != nil {
		t.Fatal(err)
	}
	revoked := issueCode(f)
	if n, err := agents.RevokeTokens(t.Context(), f.Ledger, "operator"); err != nil || n != 2 {
		t.Fatalf("revoked %d, %v", n, err)
	}
	_, err = agents.Authenticate(t.Context(), f.Ledger, session)
	want.Code(t, err, orchestrator.Unauthenticated)
	expired := issueCode(f)
	f.Clock.Advance(time.Minute)
	fresh := issueCode(f)
	for what, code := range map[string]string{
		"nothing": "", "a prefix": "mailroom_once_", "used": used, "revoked": revoked, "expired": expired,
		"shorter": fresh[:len(fresh)-1], "longer": fresh + "A",
		"a token": agent, "a session": session, "a code under a session's prefix": "mailroom_console_" +
			fresh[len("mailroom_once_"):],
	} {
		secret, made, err := agents.OpenSession(t.Context(), f.Ledger, code)
		want.Code(t, err, orchestrator.Unauthenticated)
		if secret != "" || made != (agents.Token{}) {
			t.Errorf("%s: refused, and answered with %+v", what, made)
		}
		if what == "a token" {
			continue
		}
		_, err = agents.Authenticate(t.Context(), f.Ledger, code)
		want.Code(t, err, orchestrator.Unauthenticated)
	}
	if _, _, err := agents.OpenSession(t.Context(), f.Ledger, fresh); err != nil {
		t.Errorf("the fresh one: %v", err)
	}
}

// Of several concurrent attempts with one code, in two processes, exactly one gets a session.
func TestOneOfManyGetsTheSession(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	other := f.Open()
	code := issueCode(f)
	var mu sync.Mutex
	var secrets []string
	var all sync.WaitGroup
	for i := range 16 {
		l := f.Ledger
		if i%2 == 1 {
			l = other.Ledger
		}
		all.Go(func() {
			secret, _, err := agents.OpenSession(t.Context(), l, code)
			if err != nil {
				want.Code(t, err, orchestrator.Unauthenticated)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			secrets = append(secrets, secret)
		})
	}
	all.Wait()
	if len(secrets) != 1 || len(rowsOfTokens(f)) != 1 {
		t.Errorf("%d got a session, and there are %d", len(secrets), len(rowsOfTokens(f)))
	}
}

// A session ends itself and no other, and an agent's token cannot be ended in this way.
func TestEndSession(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "boss")
	agent, _, err := agents.IssueToken(t.Context(), f.Ledger, "boss", true, 0)
	if err != nil {
		t.Fatal(err)
	}
	var secrets [2]string
	for i := range secrets {
		if secrets[i], _, err = agents.OpenSession(t.Context(), f.Ledger, issueCode(f)); err != nil {
			t.Fatal(err)
		}
	}
	want.Code(t, agents.EndSession(t.Context(), f.Ledger, agent), orchestrator.InvalidParams)
	if err := agents.EndSession(t.Context(), f.Ledger, secrets[0]); err != nil {
		t.Fatal(err)
	}
	_, err = agents.Authenticate(t.Context(), f.Ledger, secrets[0])
	want.Code(t, err, orchestrator.Unauthenticated)
	for _, secret := range []string{secrets[1], agent} {
		if _, err := agents.Authenticate(t.Context(), f.Ledger, secret); err != nil {
			t.Error(err)
		}
	}
}

// issueCode returns a new code.
func issueCode(f *enginetest.Fixture) string {
	f.T.Helper()
	code, err := agents.IssueCode(f.T.Context(), f.Ledger)
	if err != nil {
		f.T.Fatal(err)
	}
	return code
}
