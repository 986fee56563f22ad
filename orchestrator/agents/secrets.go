package agents

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// signer is a Transport that signs messages with a secret which it shares with the receiver.
type signer interface {
	// NewSecret makes a secret.
	NewSecret() string
	// CheckSecret says what is wrong with a secret that somebody chose.
	CheckSecret(secret string) error
}

// secretOf returns the secret with which messages to an agent are signed, "" if it has none.
func secretOf(c *store.Conn, agent string) (secret string, err error) {
	secret, _, err = c.Text(`SELECT secret FROM agent_secrets WHERE agent = ?`, agent)
	return secret, err
}

// SecretFor returns what an attempt to deliver to a recipient gets as orchestrator.Attempt.Secret.
func SecretFor(t *ledger.Tx, a *ledger.Agent) (string, error) {
	if p := t.Ledger.PartOf(a.Name); p != nil {
		return p.Secret(t, a.Name)
	}
	return secretOf(t.Conn, a.Name)
}

// settleSecret sees to it that an agent whose transport signs has a secret: the one that the update names, or else the
// one that it has, or else a new one. It returns a secret that it made, which nobody is told again.
func settleSecret(t *ledger.Tx, u *Update, a *ledger.Agent) (made string, err error) {
	transport, _ := t.Ledger.TransportOf(a.Deliver)
	signer, signs := transport.(signer)
	if !signs {
		if u.Secret != nil {
			return "", orchestrator.Errorf(orchestrator.InvalidParams, "secret: Mailroom does not sign messages to %s",
				a.Deliver).WithHint("Only webhook:URL supports a secret")
		}
		return "", nil
	}
	had, err := secretOf(t.Conn, a.Name)
	if err != nil || had != "" && u.Secret == nil {
		return "", err
	}
	secret := ""
	if u.Secret != nil {
		secret = *u.Secret
	}
	if secret == "" {
		made = signer.NewSecret()
		secret = made
	} else if err := signer.CheckSecret(secret); err != nil {
		return "", &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "secret", Err: err}
	}
	_, err = t.Exec(`
		INSERT INTO agent_secrets (agent, secret, created_at) VALUES (?, ?, ?)
		ON CONFLICT (agent) DO UPDATE SET secret = excluded.secret, created_at = excluded.created_at`, a.Name, secret,
		t.Now)
	return made, err
}
