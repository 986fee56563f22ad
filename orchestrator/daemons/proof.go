package daemons

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// A row of the table names the address of a daemon, and anyone who can write the table can write any address.
// Therefore nobody is directed to such an address before the daemon there has proved that it runs for the same user
// on the same machine, by having the secret of Trust.Key. The proof is for one challenge, one database and the
// address at which the daemon was reached, so a program at another address gains nothing by asking the daemon.

// Limits of the length of a challenge, in bytes.
const minChallenge, maxChallenge = 20, 128

// Prove answers a challenge that came over a connection to an address of this process, such as 127.0.0.1:8080.
// Errors: invalid_params for a challenge of less than 20 or more than 128 bytes; unavailable if the database is not
// trusted or no secret can be kept.
func Prove(ctx context.Context, l *ledger.Ledger, challenge, at string) (proof string, err error) {
	if len(challenge) < minChallenge || len(challenge) > maxChallenge {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "a challenge must be %d to %d bytes long", minChallenge,
			maxChallenge)
	}
	return prove(ctx, l, challenge, at, true)
}

// Ours reports whether a proof answers a challenge that was sent to an address. It returns false for an untrusted
// database.
func Ours(ctx context.Context, l *ledger.Ledger, challenge, at, proof string) bool {
	right, err := prove(ctx, l, challenge, at, false)
	return err == nil && hmac.Equal([]byte(proof), []byte(right))
}

func prove(ctx context.Context, l *ledger.Ledger, challenge, at string, create bool) (string, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return "", err
	}
	if l.Trust == nil || conf.Untrusted != "" {
		return "", orchestrator.Errorf(orchestrator.Unavailable, "%s", ledger.NotTrusted).
			WithHint("%s", ledger.NotTrustedHint)
	}
	key, err := l.Trust.Key(create)
	if err != nil {
		return "", &orchestrator.Error{Code: orchestrator.Unavailable,
			Message: "cannot read the secret key of this user's daemons", Err: err,
			Hint: "Check the permissions and the free space of the folder " + l.Trust.Folder}
	}
	code := hmac.New(sha256.New, key)
	for _, part := range []string{"mailroom daemon", conf.Stored[store.DatabaseID], l.TrustedPath(), at, challenge} {
		io.WriteString(code, part+"\x00")
	}
	return hex.EncodeToString(code.Sum(nil)), nil
}
