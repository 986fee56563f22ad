package hosts

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// A mark tells a message, where it is shown to its recipient's model, from a text that only looks like it: "SEQ.CODE",
// of digits, a point and 24 hexadecimal digits. Only who can read the database's secret for it can make the code, so
// that no agent can have a message of another count as shown before it is, nor end a frame before its end. A query by
// `mailroom sql` does not see the secret, and a restore deletes it, since whoever has a copy of a backup knows the one
// in it.

// markSecret is the row of agent_secrets, which is no agent's, that has it.
const markSecret = ""

// readMarkKey returns the secret of marks; "" if nothing was shown yet, or not since the last restore.
func readMarkKey(c *store.Conn) (key string, err error) {
	key, _, err = c.Text(`SELECT secret FROM agent_secrets WHERE agent = ?`, markSecret)
	return key, err
}

// markKey returns the secret of marks, which it makes if there is none.
func markKey(ctx context.Context, l *ledger.Ledger) (key string, err error) {
	err = l.Look(ctx, func(c *store.Conn) error {
		key, err = readMarkKey(c)
		return err
	})
	if key != "" || err != nil {
		return key, err
	}
	err = l.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		if err := t.Run(`INSERT INTO agent_secrets (agent, secret, created_at) VALUES (?, ?, ?)
			ON CONFLICT (agent) DO NOTHING`, markSecret, rand.Text(), t.Now); err != nil {
			return err
		}
		key, err = readMarkKey(t.Conn) // another may have been first
		return err
	})
	return key, err
}

// Mark returns the mark of a message.
func Mark(ctx context.Context, l *ledger.Ledger, m *orchestrator.Message) (string, error) {
	key, err := markKey(ctx, l)
	return markWith(key, m), err
}

// markWith returns the mark of a message; "" without a key.
func markWith(key string, m *orchestrator.Message) string {
	if key == "" {
		return ""
	}
	code := hmac.New(sha256.New, []byte(key))
	io.WriteString(code, m.Recipient+" "+m.ID)
	return strconv.FormatInt(m.Seq, 10) + "." + hex.EncodeToString(code.Sum(nil)[:12])
}

// seqOf returns the seq in a mark; 0 if it has none.
func seqOf(mark string) int64 {
	text, _, _ := strings.Cut(mark, ".")
	seq, _ := strconv.ParseInt(text, 10, 64)
	return seq
}

// markOf returns the mark of the message under a lease; "" if it is gone.
func markOf(c *store.Conn, key string, lease *messages.Lease) (string, error) {
	ms, err := messages.FindIn(c, lease.ID)
	for i := range ms {
		if ms[i].ID == lease.ID {
			return markWith(key, &ms[i]), err
		}
	}
	return "", err
}
