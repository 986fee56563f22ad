package agents

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// signer is a Transport that signs messages with a secret shared with the receiver.
type signer interface {
	// NewSecret generates a secret.
	NewSecret() string
	// CheckSecret returns an error if a chosen secret is not valid.
	CheckSecret(secret string) error
}

// secretOf returns the secret that signs the messages to an agent, or "" if it has none.
func secretOf(c *store.Conn, agent string) (secret string, err error) {
	secret, _, err = c.Text(`SELECT secret FROM agent_secrets WHERE agent = ?`, agent)
	return secret, err
}

// SecretFor returns the orchestrator.Attempt.Secret for a delivery to the agent.
func SecretFor(t *ledger.Tx, a *ledger.Agent) (string, error) {
	if p := t.Ledger.PartOf(a.Name); p != nil {
		return p.Secret(t, a.Name)
	}
	return secretOf(t.Conn, a.Name)
}

// settleSecret makes sure that an agent whose transport signs has a secret: the secret in the update, or else its
// present secret, or else a new one. It returns a new secret, which is not shown again, or "".
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
