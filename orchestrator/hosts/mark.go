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

// A mark distinguishes a message that is shown to its recipient's model from a text that only looks like one. Its
// form is "SEQ.CODE": digits, a point and 24 hexadecimal digits. The code requires the database's secret, so an
// agent can neither make a message of another count as shown before it is, nor end a frame early. A query with
// `mailroom sql` cannot read the secret. A restore deletes the secret, because anyone who has a copy of the backup
// has the secret in it.

// markSecret is the key of the secret's row in agent_secrets. The row belongs to no agent.
const markSecret = ""

// readMarkKey returns the secret of marks, or "" if nothing was shown yet, or nothing since the last restore.
func readMarkKey(c *store.Conn) (key string, err error) {
	key, _, err = c.Text(`SELECT secret FROM agent_secrets WHERE agent = ?`, markSecret)
	return key, err
}

// markKey returns the secret of marks and creates it if there is none.
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
		key, err = readMarkKey(t.Conn) // another process may have been first
		return err
	})
	return key, err
}

// Mark returns the mark of a message.
func Mark(ctx context.Context, l *ledger.Ledger, m *orchestrator.Message) (string, error) {
	key, err := markKey(ctx, l)
	return markWith(key, m), err
}

// markWith returns the mark of a message, or "" if the key is empty.
func markWith(key string, m *orchestrator.Message) string {
	if key == "" {
		return ""
	}
	code := hmac.New(sha256.New, []byte(key))
	io.WriteString(code, m.Recipient+" "+m.ID)
	return strconv.FormatInt(m.Seq, 10) + "." + hex.EncodeToString(code.Sum(nil)[:12])
}

// seqOf returns the seq in a mark, or 0 if it has none.
func seqOf(mark string) int64 {
	text, _, _ := strings.Cut(mark, ".")
	seq, _ := strconv.ParseInt(text, 10, 64)
	return seq
}

// markOf returns the mark of the leased message, or "" if the message is gone.
func markOf(c *store.Conn, key string, lease *messages.Lease) (string, error) {
	ms, err := messages.FindIn(c, lease.ID)
	for i := range ms {
		if ms[i].ID == lease.ID {
			return markWith(key, &ms[i]), err
		}
	}
	return "", err
}
