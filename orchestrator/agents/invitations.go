package agents

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// An invitation is exchanged once for a token, by a place on another machine that is to act for an agent. It is a
// row of tokens whose agent begins with this prefix. No name begins so, hence an invitation is nobody's token. The
// row stays after use, so that a second use is recognized.
const joinPrefix = "join:"

// InvitationLife is how long an invitation can be used.
const InvitationLife = 10 * time.Minute

// Invite creates a code with which one place can join as an agent: 26 letters and digits with at least 128 random
// bits. The agent need not exist. A place that joins as the operator has the rights of a person in the console.
// Error: invalid_params.
func Invite(ctx context.Context, l *ledger.Ledger, agent string) (code string, invitation Token, err error) {
	if agent != orchestrator.Operator {
		if agent, err = orchestrator.CheckNewName("agent", agent); err != nil {
			return "", Token{}, err
		}
		if orchestrator.IsBuiltIn(agent) {
			return "", Token{}, orchestrator.Errorf(orchestrator.InvalidParams, "cannot join as `%s`, which is reserved for %s", agent,
				orchestrator.BuiltIns[agent]).WithHint("Choose another name")
		}
	}
	code = rand.Text()
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if err := mayHaveToken(t, agent); err != nil {
			return err
		}
		t.KeepSpan()
		invitation, err = insertToken(t, invitationSecret(agent, code), joinPrefix+agent, agent == orchestrator.Operator, InvitationLife)
		return err
	})
	return code, invitation, err
}

// invitationSecret returns the text whose hash is stored for an invitation. No token begins so.
func invitationSecret(agent, code string) string { return joinPrefix + agent + ":" + code }

// AcceptInvitation exchanges an invitation for a token that is valid until it is revoked. Of several concurrent
// attempts, one succeeds. Errors: unauthenticated, which does not reveal whether the code is unknown or expired;
// conflict if it was used.
func AcceptInvitation(ctx context.Context, l *ledger.Ledger, agent, code string) (secret string, token Token, err error) {
	refused := orchestrator.Errorf(orchestrator.Unauthenticated, "the invitation is not valid: an invitation works only once, and only for %s",
		orchestrator.FormatDuration(InvitationLife)).
		WithHint("To create a new invitation, run `mailroom invite NAME` on the machine of the database")
	if len(agent) > maxSecret || len(code) > maxSecret {
		return "", Token{}, refused
	}
	prefix := tokenPrefix
	if agent == orchestrator.Operator {
		prefix = sessionPrefix
	}
	hash := HashToken(invitationSecret(agent, code))
	there, err := ledger.ReadValue(ctx, l, func(c *store.Conn) (bool, error) { // strangers cost no write
		_, found, err := store.First(c, scanToken, `SELECT `+tokenColumns+` FROM tokens WHERE hash = ?`, hash)
		return found, err
	})
	if err != nil || !there {
		return "", Token{}, cmp.Or(err, error(refused))
	}
	secret = NewToken(prefix)
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		taken, err := t.Exec(`UPDATE tokens SET revoked_at = ? WHERE hash = ? AND revoked_at = '' AND expires_at > ?`, t.Now, hash, t.ClockText)
		if err != nil {
			return err
		}
		if taken != 1 {
			used, found, err := store.First(t.Conn, scanToken, `SELECT `+tokenColumns+` FROM tokens WHERE hash = ?`, hash)
			if err != nil {
				return err
			}
			if !found || used.RevokedAt == "" {
				return refused
			}
			return orchestrator.Errorf(orchestrator.Conflict, "the invitation was used at %s", used.RevokedAt).
				WithHint("If that was not you, run `mailroom agent token %s --revoke` and then `mailroom invite %[1]s` on the machine of the database", agent)
		}
		if err := mayHaveToken(t, agent); err != nil {
			return err
		}
		t.KeepSpan()
		token, err = insertToken(t, secret, agent, agent == orchestrator.Operator, 0)
		return err
	})
	if err != nil {
		return "", Token{}, err
	}
	return secret, token, nil
}

// EndToken revokes the token with this secret.
func EndToken(ctx context.Context, l *ledger.Ledger, secret string) error {
	return l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		t.KeepSpan()
		return t.Run(`UPDATE tokens SET revoked_at = ? WHERE hash = ? AND revoked_at = ''`, t.Now, HashToken(secret))
	})
}
