package agents

import (
	"context"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// The console's page acts as the operator. A code, which is part of the address that a browser opens, is exchanged
// once for a session, which is a token. Codes and sessions are rows of tokens, and the operator has no other
// tokens. The prefix of a secret is part of its hash, so a code cannot be used as a session or the reverse.
const (
	codePrefix    = "mailroom_once_"
	sessionPrefix = tokenPrefix + "console_"
)

// How long a code can be exchanged, and how long a session lasts.
const (
	CodeLife    = time.Minute
	sessionLife = 12 * time.Hour
)

// IssueCode creates a code for one session of the console. It deletes expired codes and sessions.
func IssueCode(ctx context.Context, l *ledger.Ledger) (code string, err error) {
	code = NewToken(codePrefix)
	return code, l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if err := t.Run(`DELETE FROM tokens WHERE agent = 'operator' AND expires_at <> '' AND expires_at <= ?`,
			t.ClockText); err != nil {
			return err
		}
		_, err := insertToken(t, code, orchestrator.Operator, false, CodeLife) // a code alone has no rights
		return err
	})
}

// CodeWaits reports whether a code can still be exchanged: it has been neither used nor expired.
func CodeWaits(ctx context.Context, l *ledger.Ledger, code string) (bool, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (bool, error) {
		n, err := c.Number(`SELECT count(*) FROM tokens WHERE hash = ? AND agent = 'operator' AND revoked_at = ''
			AND expires_at > ?`, HashToken(code), orchestrator.Stamp(l.Now()))
		return n > 0, err
	})
}

// OpenSession exchanges a code for a session of the console. Of several concurrent attempts, one succeeds. Error:
// unauthenticated, which does not reveal whether the code is unknown, used or expired.
func OpenSession(ctx context.Context, l *ledger.Ledger, code string) (secret string, session Token, err error) {
	refused := orchestrator.Errorf(orchestrator.Unauthenticated, "the code is not valid: a code works only once, and only for %s",
		orchestrator.FormatDuration(CodeLife)).
		WithHint("To get a new code, run `mailroom console`")
	if !strings.HasPrefix(code, codePrefix) || len(code) > maxSecret {
		return "", Token{}, refused
	}
	secret = NewToken(sessionPrefix)
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		taken, err := t.Exec(`DELETE FROM tokens WHERE hash = ? AND agent = 'operator' AND admin = 0 AND revoked_at = ''
			AND expires_at > ?`, HashToken(code), t.ClockText)
		if err != nil {
			return err
		}
		if taken != 1 {
			return refused
		}
		t.KeepSpan()
		session, err = insertToken(t, secret, orchestrator.Operator, true, sessionLife)
		return err
	})
	if err != nil {
		return "", Token{}, err
	}
	return secret, session, nil
}

// EndSession revokes the session of the console with this secret. Error: invalid_params for an agent's token, which
// others may use too.
func EndSession(ctx context.Context, l *ledger.Ledger, secret string) error {
	if !strings.HasPrefix(secret, sessionPrefix) {
		return orchestrator.Errorf(orchestrator.InvalidParams, "this token does not belong to a console login").
			WithHint("Delete the token from the place where you stored it. To revoke the tokens of an agent, run `mailroom agent token NAME --revoke`")
	}
	return l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		t.KeepSpan()
		return t.Run(`UPDATE tokens SET revoked_at = ? WHERE hash = ? AND agent = 'operator' AND revoked_at = ''`,
			t.Now, HashToken(secret))
	})
}

// speaksFor reports whether a secret may act as the agent of the token with its hash. A session of the console acts
// as the operator, and the operator has no other tokens. Nobody acts as the user.
func speaksFor(secret string, token Token) bool {
	if strings.HasPrefix(secret, sessionPrefix) {
		return token.Agent == orchestrator.Operator && token.Admin
	}
	return !orchestrator.IsBuiltIn(token.Agent)
}
