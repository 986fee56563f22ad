package person

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/store"
)

// vouched is the stored record of an answer that was returned as a message. It distinguishes the message from one
// that somebody wrote into the table.
type vouched struct {
	Digest string `json:"digest"`
}

// Vouch stores a digest of the message that returns an answer, so that Vouched can recognize the message. It does so
// only if the answer is from a paired device that had read the question. An answer to an unencrypted question could
// be from anyone, and is not vouched for.
func Vouch(l *ledger.Ledger, answer *Response, reply *orchestrator.Draft) error {
	if !answer.sealed {
		return nil
	}
	digest, err := digestOf(reply.Recipient, reply.ReplyTo, reply.Type, reply.Action, reply.Summary,
		string(reply.Payload))
	if err != nil {
		return err
	}
	k, err := openKeys(l, true)
	if err != nil {
		return err
	}
	defer k.close()
	return k.write(vouchedFolder, answer.ID, vouched{digest})
}

// Vouched reports whether a message contains the unchanged answer of a paired device, and is not a copy of the
// original message. Errors: those of the database and of the key folder.
func Vouched(ctx context.Context, l *ledger.Ledger, m *orchestrator.Message) (bool, error) {
	if m.Sender != orchestrator.User || m.ReplyTo == "" {
		return false, nil
	}
	q, found, err := questions.OfMessage(ctx, l, m.ReplyTo)
	if err != nil || !found {
		return false, err
	}
	k, err := openKeys(l, false)
	if err != nil {
		return false, err
	}
	defer k.close()
	var kept vouched
	if err := k.read(vouchedFolder, q.ID, &kept); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return false, err
	}
	digest, err := digestOf(m.Recipient, m.ReplyTo, m.Type, m.Action, m.Summary, string(m.Payload))
	if err != nil || digest != kept.Digest {
		return false, err
	}
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (bool, error) {
		copied, err := messages.AnsweredBefore(c, m)
		return !copied, err
	})
}

// digestOf returns a digest of everything that is shown of an answer: its recipient, the message it answers, its
// type, action and content.
func digestOf(parts ...string) (string, error) {
	text, err := orchestrator.JSON(parts)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}
