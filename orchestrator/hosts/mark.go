package hosts

import (
	"crypto/hmac"
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

// Mark returns what tells a message, where it is shown to its recipient's model, from a text that only looks like it: "SEQ.CODE", of
// digits, a point and 24 hexadecimal digits. Only who can read the database can make the code, so that no agent can have a message of
// another count as shown before it is.
func Mark(conf *ledger.Config, m *orchestrator.Message) string {
	code := hmac.New(sha256.New, []byte(conf.Stored[store.DatabaseID]))
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
func markOf(c *store.Conn, conf *ledger.Config, lease *messages.Lease) (string, error) {
	ms, err := messages.FindIn(c, lease.ID)
	for i := range ms {
		if ms[i].ID == lease.ID {
			return Mark(conf, &ms[i]), err
		}
	}
	return "", err
}
