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

// vouched is what is kept of an answer that goes back as a message, so that the message can be told from one that
// somebody has written into the table.
type vouched struct {
	Digest string `json:"digest"`
}

// Vouch keeps what an answer goes back as, if a paired device gave it that had read the question; Vouched then knows
// the message. An answer to a question that was not encrypted could be anybody's, and is not vouched for.
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

// Vouched reports whether a message brings the answer of a paired device, unchanged, and is not a copy of the one that
// did. Errors: those of the database; those of the folder of keys.
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

// digestOf tells answers apart by all that is shown of them: who gets them, what they answer, of which type and with
// which action, and what they say.
func digestOf(parts ...string) (string, error) {
	text, err := orchestrator.JSON(parts)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}
