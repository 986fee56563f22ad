package person

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"

	"mailroom/orchestrator"
	"mailroom/orchestrator/questions"
	"mailroom/tracing"
)

// maxAnswer bounds the bytes that are read of an answer: a text of 2,000 characters in JSON, all of them escaped, and
// the other fields.
const maxAnswer = 32 << 10

// sealedQuestion is the form in which a device reads a question. Source: signal.md, "Encryption".
type sealedQuestion struct {
	V         int      `json:"v"`
	Kind      string   `json:"kind"`
	ID        string   `json:"id"`
	From      string   `json:"from"`
	Question  string   `json:"question"`
	Options   []string `json:"options,omitempty"`
	Context   string   `json:"context,omitempty"`
	Priority  string   `json:"priority"`
	CreatedAt string   `json:"createdAt"`
	ExpiresAt string   `json:"expiresAt"`
	ThreadID  string   `json:"threadId,omitempty"`
	InReplyTo string   `json:"inReplyTo,omitempty"`
	ProjectID string   `json:"projectId,omitempty"`
	Reply     string   `json:"reply,omitempty"` // recipient that the answer is sealed to
	MAC       string   `json:"mac,omitempty"`   // key of the answer's HMAC
}

// sealedAlert is the form in which a device reads an alert.
type sealedAlert struct {
	V         int    `json:"v"`
	Kind      string `json:"kind"`
	ID        string `json:"id"`
	From      string `json:"from"`
	Message   string `json:"message"`
	AlertType string `json:"alertType"`
	Context   string `json:"context,omitempty"`
	SessionID string `json:"sessionId,omitempty"`
	Priority  string `json:"priority"`
	CreatedAt string `json:"createdAt"`
}

// seal encrypts a value as JSON to recipients. The result is one age file in base64.
func seal(value any, recipients []age.Recipient) (string, error) {
	plain, err := orchestrator.JSON(value)
	if err != nil {
		return "", err
	}
	return sealBytes(plain, recipients)
}

func sealBytes(plain []byte, recipients []age.Recipient) (string, error) {
	var b bytes.Buffer
	w, err := age.Encrypt(&b, recipients...)
	if err != nil {
		return "", err
	}
	_, err = w.Write(plain)
	if err := errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// open decrypts a result of seal, up to limit bytes. Its errors do not repeat any of the content.
func open(sealed string, identity age.Identity, limit int64) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return nil, errors.New("the content is not valid base64")
	}
	r, err := age.Decrypt(bytes.NewReader(raw), identity)
	if err != nil {
		return nil, errors.New("the content cannot be decrypted")
	}
	plain, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, errors.New("the content cannot be decrypted")
	}
	if int64(len(plain)) > limit {
		return nil, errors.New("the content is too large")
	}
	return plain, nil
}

// reply is the record of a question that is kept outside of the table until its answer was read. It holds the keys
// that open the answer, and the values that a writer of the table must not be able to change. Identity and MAC are
// empty if the question is not encrypted.
type reply struct {
	Asker     string   `json:"asker"`
	Options   []string `json:"options,omitempty"`
	MessageID string   `json:"messageId,omitempty"` // of the message that asks; its sender gets the answer in clear
	Identity  string   `json:"identity,omitempty"`
	MAC       string   `json:"mac,omitempty"` // base64url
	ExpiresAt string   `json:"expiresAt,omitempty"`
	RefusedAt string   `json:"refusedAt,omitempty"` // when an answer was last rejected
}

// folder returns the folder in which the record is kept.
func (k *reply) folder() string {
	if k.Identity == "" {
		return clearFolder
	}
	return repliesFolder
}

// newReply creates the keys for a question's answer, and adds the recipient and the HMAC key to the question.
func newReply(q *sealedQuestion) (reply, error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return reply{}, err
	}
	key := make([]byte, 32)
	rand.Read(key) // never fails; see crypto/rand
	q.Reply, q.MAC = identity.Recipient().String(), base64.RawURLEncoding.EncodeToString(key)
	return reply{Asker: q.From, Options: q.Options, Identity: identity.String(), MAC: q.MAC, ExpiresAt: q.ExpiresAt},
		nil
}

// answer is the reply of a device. For a question with options, it is the index of one and optionally a comment;
// otherwise, it is a text.
type answer struct {
	V      int     `json:"v,omitempty"`
	ID     string  `json:"id,omitempty"`
	Option *int    `json:"option,omitempty"`
	Text   *string `json:"text,omitempty"`
	Time   string  `json:"time,omitempty"`
	MAC    string  `json:"mac,omitempty"`
}

// open returns the answer to a question: the text of the chosen option and the comment, or the text that was entered.
// Its errors explain why the answer cannot be from a device that read the question, and do not repeat any of it.
func (k *reply) open(id, given string) (text, comment string, err error) {
	plain := []byte(given)
	if k.Identity != "" {
		identity, err := age.ParseX25519Identity(k.Identity)
		if err != nil {
			return "", "", errors.New("the key of the question is damaged")
		}
		if plain, err = open(given, identity, maxAnswer); err != nil {
			return "", "", err
		}
	}
	if err := orchestrator.CheckPairs("the answer", plain); err != nil {
		return "", "", err
	}
	decoder := json.NewDecoder(bytes.NewReader(plain))
	decoder.DisallowUnknownFields()
	var a answer
	if decoder.Decode(&a) != nil || decoder.Decode(new(any)) != io.EOF {
		return "", "", errors.New("the answer does not have the expected format")
	}
	if k.Identity != "" {
		if err := k.authentic(id, &a); err != nil {
			return "", "", err
		}
	}
	return k.says(&a)
}

// authentic checks that the answer is for this question and from a device that could read it. age does not
// authenticate the sender.
func (k *reply) authentic(id string, a *answer) error {
	key, err := base64.RawURLEncoding.DecodeString(k.MAC)
	if err != nil || len(key) != 32 {
		return errors.New("the key of the question is damaged")
	}
	mac, err := base64.RawURLEncoding.DecodeString(a.MAC)
	if err != nil || !hmac.Equal(mac, a.sum(key)) {
		return errors.New("the answer is not from a device that read the question")
	}
	if a.V != 1 || a.ID != id {
		return errors.New("the answer is for another question")
	}
	return k.inTime(a)
}

// skew is how far the clock of a device may be ahead.
const skew = 10 * time.Minute

// inTime checks when the answer was given, according to the device's clock. Anyone who can write to the table could
// otherwise extend a question, or restore an answer that was given before another one was rejected and that the
// person has since changed.
//
// After a rejection, no clock difference is allowed, which is the safe side. The answers of a device whose clock is
// behind are rejected until its clock has passed the time of the rejection. If a clock is ahead, an answer can be
// restored if it was given before the rejection by less than the clock is ahead.
func (k *reply) inTime(a *answer) error {
	given, err := time.Parse(time.RFC3339Nano, a.Time)
	if err != nil {
		return errors.New("the time of the answer is not valid")
	}
	if ends, err := time.Parse(tracing.Layout, k.ExpiresAt); err != nil {
		return errors.New("the key of the question is damaged")
	} else if given.After(ends.Add(skew)) {
		return errors.New("the answer was given after the question expired")
	}
	if k.RefusedAt == "" {
		return nil
	}
	if refused, err := time.Parse(tracing.Layout, k.RefusedAt); err != nil || given.Before(refused) {
		return errors.New("the answer was given before another answer was refused")
	}
	return nil
}

// sum returns the HMAC of the contents of the answer.
func (a *answer) sum(key []byte) []byte {
	var said []string
	if a.Option != nil {
		said = append(said, "option:"+strconv.Itoa(*a.Option))
	}
	if a.Text != nil {
		said = append(said, "text:"+*a.Text)
	}
	h := hmac.New(sha256.New, key)
	io.WriteString(h, "mailroom answer v1\n"+a.ID+"\n"+strings.Join(said, "\n")+"\n"+a.Time)
	return h.Sum(nil)
}

// says returns the text of the chosen option and the comment, or the text that was entered.
func (k *reply) says(a *answer) (text, comment string, err error) {
	switch {
	case len(k.Options) > 0 && (a.Option == nil || *a.Option < 0 || *a.Option >= len(k.Options)):
		return "", "", errors.New("the answer is not one of the options")
	case len(k.Options) > 0 && a.Text == nil:
		return k.Options[*a.Option], "", nil
	case len(k.Options) == 0 && (a.Option != nil || a.Text == nil):
		return "", "", errors.New("the answer must be a text, because the question has no options")
	case questions.CheckAnswerText(*a.Text) != nil:
		return "", "", errors.New("the text of the answer is empty or too long")
	case len(k.Options) > 0:
		return k.Options[*a.Option], *a.Text, nil
	}
	return *a.Text, "", nil
}
