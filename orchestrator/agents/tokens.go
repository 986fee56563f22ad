package agents

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// tokenPrefix begins every token, so that secret scanners can find a leaked token.
const tokenPrefix = "mailroom_"

// maxSecret is the maximum length of a credential, in bytes.
const maxSecret = 128

// maxTokenLife is the longest lifetime of a token that expires.
const maxTokenLife = 3650 * orchestrator.Day

// Token describes a credential with which somebody acts as an agent over the network. Only the hash of the
// credential is stored.
type Token struct {
	ID        string `json:"id"` // first 12 hex digits of the hash
	Agent     string `json:"agent"`
	Admin     bool   `json:"admin"`
	CreatedAt string `json:"created_at"`
	ExpiresAt string `json:"expires_at,omitempty"` // "": never
	RevokedAt string `json:"revoked_at,omitempty"`
}

// IssueToken creates a credential for an agent. It returns the credential as secret, which cannot be read again
// later. With admin, its holder may also run the commands for administrators. With lifetime 0 the token does not
// expire. The agent need not exist: it is added when somebody first acts as it with the token. Error:
// invalid_params.
func IssueToken(ctx context.Context, l *ledger.Ledger, agent string, admin bool, lifetime time.Duration) (secret string,
	token Token, err error) {
	if folded := orchestrator.FoldName(agent); orchestrator.IsBuiltIn(folded) {
		return "", Token{},
			orchestrator.Errorf(orchestrator.InvalidParams, "cannot issue a token for `%s`, which is reserved for %s", folded,
				orchestrator.BuiltIns[folded]).WithHint("Issue the token for an agent with another name")
	}
	if agent, err = orchestrator.CheckNewName("agent", agent); err != nil {
		return "", Token{}, err
	}
	if lifetime < 0 || lifetime > maxTokenLife {
		return "", Token{},
			orchestrator.Errorf(orchestrator.InvalidParams, "`expires` is %s, but must be from 1 second to %s",
				orchestrator.FormatDuration(lifetime), orchestrator.FormatDuration(maxTokenLife))
	}
	secret = NewToken(tokenPrefix)
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if err := mayHaveToken(t, agent); err != nil {
			return err
		}
		t.KeepSpan()
		token, err = insertToken(t, secret, agent, admin, lifetime)
		return err
	})
	return secret, token, err
}

// mayHaveToken returns an error for a group and for a removed agent.
func mayHaveToken(t *ledger.Tx, agent string) error {
	if _, isGroup := t.Config().Groups[agent]; isGroup {
		return orchestrator.Errorf(orchestrator.InvalidParams, "%s is a group, but a token must be for one agent", agent)
	}
	removed, err := RemovedAt(t.Conn, agent)
	if err == nil && removed != "" {
		err = Removed(orchestrator.Conflict, "", agent, removed)
	}
	return err
}

// insertToken adds the row of a credential. With lifetime 0 the credential does not expire.
func insertToken(t *ledger.Tx, secret, agent string, admin bool, lifetime time.Duration) (Token, error) {
	hash := HashToken(secret)
	token := Token{ID: hash[:12], Agent: agent, Admin: admin, CreatedAt: t.Now}
	if lifetime > 0 {
		token.ExpiresAt = orchestrator.Stamp(t.Clock.Add(lifetime))
	}
	return token, t.Run(`INSERT INTO tokens (hash, agent, admin, created_at, expires_at) VALUES (?, ?, ?, ?, ?)`,
		hash, agent, admin, token.CreatedAt, token.ExpiresAt)
}

// NewToken returns a prefix followed by 256 random bits in base64url.
func NewToken(prefix string) string {
	var random [32]byte
	rand.Read(random[:]) // never fails; see crypto/rand
	return prefix + base64.RawURLEncoding.EncodeToString(random[:])
}

// HashToken returns the hash of a credential, in the form that is stored.
func HashToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Authenticate returns the token of a credential. It reads the database each time, so that a revocation takes
// effect at once. Error: unauthenticated, which does not reveal whether the credential is unknown, expired,
// revoked, or for a built-in name. Of the built-in names, only the operator has credentials: the sessions of the
// console.
func Authenticate(ctx context.Context, l *ledger.Ledger, secret string) (token Token, err error) {
	refused := orchestrator.Errorf(orchestrator.Unauthenticated, "the token is not valid").
		WithHint("To issue a token, run `mailroom agent token NAME`")
	if strings.HasPrefix(secret, sessionPrefix) {
		refused.Hint = "The console login has ended. To log in again, run `mailroom console`"
	}
	if !strings.HasPrefix(secret, tokenPrefix) || len(secret) > maxSecret {
		return Token{}, refused
	}
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (Token, error) {
		token, found, err := store.First(c, scanToken, `SELECT `+tokenColumns+` FROM tokens WHERE hash = ?`,
			HashToken(secret))
		if err != nil {
			return Token{}, err
		}
		if !found || !speaksFor(secret, token) || token.RevokedAt != "" ||
			(token.ExpiresAt != "" && token.ExpiresAt <= orchestrator.Stamp(l.Now())) {
			return Token{}, refused
		}
		return token, nil
	})
}

const tokenColumns = `hash, agent, admin, created_at, expires_at, revoked_at`

func scanToken(row store.Row) Token {
	hash := row.Text(0)
	return Token{
		ID: hash[:min(12, len(hash))], Agent: row.Text(1), Admin: row.Int(2) == 1, CreatedAt: row.Text(3),
		ExpiresAt: row.Text(4), RevokedAt: row.Text(5),
	}
}

// Tokens returns the tokens of an agent, or all tokens if agent is "", oldest first. The list includes expired and
// revoked tokens and the sessions of the console, as tokens of the operator, but no console codes and no
// invitations.
func Tokens(ctx context.Context, l *ledger.Ledger, agent string) ([]Token, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) ([]Token, error) {
		return store.List(c, scanToken,
			`SELECT `+tokenColumns+
				` FROM tokens WHERE (?1 = '' OR agent = ?1) AND NOT (agent = 'operator' AND admin = 0) AND substr(agent, 1, 5) <> 'join:'
					ORDER BY created_at, hash`, agent)
	})
}

// RevokeTokens revokes all tokens of an agent and returns how many were valid until now. If no agent has the name
// and no token was ever issued for it, the error is not_found, and its hint names the most similar agents.
func RevokeTokens(ctx context.Context, l *ledger.Ledger, agent string) (n int64, err error) {
	if agent, err = orchestrator.CheckName("agent", agent); err != nil {
		return 0, err
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if n, err = RevokeTokensIn(t, agent); err != nil || n > 0 {
			return err
		}
		conf := t.Config()
		if conf.Agents[agent] != nil {
			return nil
		}
		issued, err := t.Number(`SELECT count(*) FROM tokens WHERE agent = ?`, agent)
		if err == nil && issued == 0 {
			err = NoAgent(t.Conn, agent, conf)
		}
		return err
	})
	return n, err
}

// RevokeToken revokes the token with an ID that Tokens returned, and returns the token. valid reports whether the
// token was not yet revoked. Error: not_found.
func RevokeToken(ctx context.Context, l *ledger.Ledger, id string) (token Token, valid bool, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		var found bool
		token, found, err = store.First(t.Conn, scanToken,
			`SELECT `+tokenColumns+` FROM tokens WHERE hash >= ?1 AND hash < ?1 || 'g' ORDER BY hash LIMIT 1`, id)
		if err != nil {
			return err
		}
		if !found || token.ID != id {
			return orchestrator.Errorf(orchestrator.NotFound, "there is no token %q", id).
				WithHint("To list the tokens, run `mailroom agent token --list`")
		}
		if valid = token.RevokedAt == ""; !valid {
			return nil
		}
		t.KeepSpan()
		token.RevokedAt = t.Now
		return t.Run(`UPDATE tokens SET revoked_at = ?1 WHERE hash >= ?2 AND hash < ?2 || 'g' AND revoked_at = ''`,
			t.Now, id)
	})
	return token, valid, err
}

// RevokeTokensIn revokes all tokens and invitations of an agent, within a transaction, and returns how many were
// not yet revoked. It accepts any name.
func RevokeTokensIn(t *ledger.Tx, agent string) (int64, error) {
	t.KeepSpan()
	n, err := t.Exec(`UPDATE tokens SET revoked_at = ? WHERE agent = ? AND revoked_at = ''`, t.Now, agent)
	if err != nil {
		return 0, err
	}
	invitations, err := t.Exec(`DELETE FROM tokens WHERE agent = ? AND revoked_at = ''`, joinPrefix+agent)
	return n + invitations, err
}
