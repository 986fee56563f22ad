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

// maxAnswer bounds what is read of an answer, in bytes: a text of 2,000 characters in JSON with all of them escaped,
// and what stands beside it.
const maxAnswer = 32 << 10

// sealedQuestion is what a device reads of a question. Source: signal.md, "Encryption".
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

// sealedAlert is what a device reads of an alert.
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

// seal encrypts a value, as JSON, to recipients: one age file, in base64.
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

// open decrypts what seal wrote, at most limit bytes of it. Its errors repeat nothing of the content.
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

// reply is what is kept of a question outside of the table until its answer was read: how its answer is opened, and
// what nobody who writes the table may change. Identity and MAC are empty when the question is not encrypted.
type reply struct {
	Asker     string   `json:"asker"`
	Options   []string `json:"options,omitempty"`
	MessageID string   `json:"messageId,omitempty"` // of the message that asks, whose sender gets the answer in clear
	Identity  string   `json:"identity,omitempty"`
	MAC       string   `json:"mac,omitempty"` // base64url
	ExpiresAt string   `json:"expiresAt,omitempty"`
	RefusedAt string   `json:"refusedAt,omitempty"` // when an answer was refused last
}

// folder returns the folder in which it is kept.
func (k *reply) folder() string {
	if k.Identity == "" {
		return clearFolder
	}
	return repliesFolder
}

// newReply makes the keys of a question's answer, and puts their public halves into it.
func newReply(q *sealedQuestion) (reply, error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return reply{}, err
	}
	key := make([]byte, 32)
	rand.Read(key) // it never fails
	q.Reply, q.MAC = identity.Recipient().String(), base64.RawURLEncoding.EncodeToString(key)
	return reply{Asker: q.From, Options: q.Options, Identity: identity.String(), MAC: q.MAC, ExpiresAt: q.ExpiresAt},
		nil
}

// answer is what a device says: of a question with options the index of one and, perhaps, a few words beside it; else a
// text.
type answer struct {
	V      int     `json:"v,omitempty"`
	ID     string  `json:"id,omitempty"`
	Option *int    `json:"option,omitempty"`
	Text   *string `json:"text,omitempty"`
	Time   string  `json:"time,omitempty"`
	MAC    string  `json:"mac,omitempty"`
}

// open returns what the answer to a question says: the text of the option that was chosen and the comment that was
// written beside it, or the text that was written. Its errors say why no device that read the question can have given
// the answer, and repeat nothing of it.
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

// authentic checks that the answer is to this question, and by somebody who could read it: age does not say who wrote.
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

// skew is by how much the clock of a device may be behind.
const skew = 10 * time.Minute

// inTime checks when the answer was given, by the device's clock: who writes the table could put the end of a question
// off, or put an answer back that was given before another one was refused, and that the person has thought better of
// since.
//
// After a refusal no difference of the clocks is allowed for, which is the safe side: the answers of a device that is
// behind are refused until its clock has passed the refusal. That of one which is ahead can be put back if it was given
// less before the refusal than the clock is ahead.
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

// sum returns the HMAC of what the answer says.
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

// says returns the option that was chosen and what was written beside it, or the text that was written.
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
