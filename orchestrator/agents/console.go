package agents

import (
	"context"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// The console's page speaks for the operator. A code, which stands in the address that a browser is sent to, is
// exchanged once for a session, which is a token. Both are rows of tokens, and no other token is of the operator; the
// prefix of a secret is part of its hash, so that neither passes for the other.
const (
	codePrefix    = "mailroom_once_"
	sessionPrefix = tokenPrefix + "console_"
)

// How long a code can be exchanged, and how long a session lasts.
const (
	CodeLife    = time.Minute
	sessionLife = 12 * time.Hour
)

// IssueCode makes a code for one session of the console. Codes and sessions that have run out are deleted.
func IssueCode(ctx context.Context, l *ledger.Ledger) (code string, err error) {
	code = NewToken(codePrefix)
	return code, l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if err := t.Run(`DELETE FROM tokens WHERE agent = 'operator' AND expires_at <> '' AND expires_at <= ?`,
			t.ClockText); err != nil {
			return err
		}
		_, err := insertToken(t, code, orchestrator.Operator, false, CodeLife) // which alone has no rights
		return err
	})
}

// CodeWaits reports whether a code can still be exchanged: nobody has, and it has not run out.
func CodeWaits(ctx context.Context, l *ledger.Ledger, code string) (bool, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (bool, error) {
		n, err := c.Number(`SELECT count(*) FROM tokens WHERE hash = ? AND agent = 'operator' AND revoked_at = ''
			AND expires_at > ?`, HashToken(code), orchestrator.Stamp(l.Now()))
		return n > 0, err
	})
}

// OpenSession exchanges a code for a session of the console. Of several who try at once, one gets it. Error:
// unauthenticated, which does not tell whether the code is unknown, used or too old.
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

// EndSession revokes the session of the console that has this secret. Error: invalid_params for the token of an agent,
// which others may use, too.
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

// speaksFor reports whether a credential may be one of the agent whose row has its hash: a session of the console is
// the operator's, and the operator has no other tokens. Nobody speaks as the user.
func speaksFor(secret string, token Token) bool {
	if strings.HasPrefix(secret, sessionPrefix) {
		return token.Agent == orchestrator.Operator && token.Admin
	}
	return !orchestrator.IsBuiltIn(token.Agent)
}
