package person

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"filippo.io/age"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
)

// Phone is a simulated phone for the demo. It has a key of its own, opens content sealed for it, and seals its
// answers, as the app in a browser does.
type Phone struct {
	device string
	key    *age.X25519Identity
}

// PairPhone creates a phone and uses up a pairing code for it. The phone can read questions once its fingerprint was
// approved. Errors: those of questions.Pair.
func PairPhone(ctx context.Context, l *ledger.Ledger, code, name string) (p Phone, fingerprint string, err error) {
	if p.key, err = age.GenerateX25519Identity(); err != nil {
		return p, "", err
	}
	d, _, err := questions.Pair(ctx, l,
		questions.PairRequest{Code: code, Name: name, Recipient: p.key.Recipient().String()})
	p.device = d.ID
	return p, d.Fingerprint, err
}

// Answer answers an encrypted question with the option at an index, counted from 0. Errors: those of
// questions.Answer, and conflict if the question was not sealed for this phone.
func (p *Phone) Answer(ctx context.Context, l *ledger.Ledger, id string, option int) error {
	q, err := questions.Get(ctx, l, id)
	if err != nil {
		return err
	}
	plain, err := open(q.Body, p.key, maxAnswer)
	if err != nil {
		return &orchestrator.Error{Code: orchestrator.Conflict, Message: "the phone cannot decrypt the question", Err: err}
	}
	var asked sealedQuestion
	if err := json.Unmarshal(plain, &asked); err != nil {
		return err
	}
	to, err := age.ParseX25519Recipient(asked.Reply)
	if err != nil {
		return err
	}
	key, err := base64.RawURLEncoding.DecodeString(asked.MAC)
	if err != nil {
		return err
	}
	a := answer{V: 1, ID: id, Option: &option, Time: orchestrator.Stamp(l.Now())}
	a.MAC = base64.RawURLEncoding.EncodeToString(a.sum(key))
	sealed, err := seal(a, []age.Recipient{to})
	if err == nil {
		_, err = questions.Answer(ctx, l, id, p.device, sealed)
	}
	return err
}
