// Package person sends questions and alerts to the person for whom agents work. It seals them for the person's
// devices, opens and checks the answers, and keeps the required keys beside the database, in the folder
// DATABASE-signal.
//
// The table is not trusted. A device in the table is not used until it was approved here (Approve). An answer in the
// table is rejected unless it comes from a device that could read the question. Source: signal.md.
//
// All functions may be called by several goroutines and processes at the same time. No error repeats a question, an
// option, a context, an alert or an answer, because errors are stored in the traces.
package person

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"filippo.io/age"

	"mailroom/orchestrator"
	"mailroom/orchestrator/confusables"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
)

// Bounds of a question: its length in characters, the number of its options, and its lifetime.
const (
	maxQuestion = 2000
	maxContext  = 500
	maxOption   = 100
	maxOptions  = 5

	minTTL = time.Second

	// DefaultTTL is how long a question is open if it sets no time.
	DefaultTTL = 7 * 24 * time.Hour
)

// Question is a question to the person.
type Question struct {
	Asker     string   // agent that asks
	Question  string   // 1 to 2,000 characters
	Options   []string // none: the answer is text; else 1 to 5 that differ, each of 1 to 100 characters
	Context   string   // up to 500 characters
	Priority  string   // low, normal or high; "" is normal
	Encrypted bool
	SessionID string
	ThreadID  string
	InReplyTo string // ID of a question
	ProjectID string
	MessageID string        // of the message to the agent `user` that asks; each message causes one question
	TTL       time.Duration // 0 is DefaultTTL; 1 s to 30 days
}

// Asked is the result of asking a question.
type Asked struct {
	questions.Question
	Devices int      // how many can show it
	Pushed  int      // how many of them, and of ntfy topics, it is pushed to
	Unused  []string // IDs of devices that are active in the table but were not approved on this machine
}

// Ask stores a question and pushes it to the devices. Both are durable when it returns. Errors: invalid_params, which
// names the parameter; unavailable if no device could show the question. An encrypted question is never sent
// unencrypted instead.
func Ask(ctx context.Context, l *ledger.Ledger, q Question) (Asked, error) {
	q.Priority, q.TTL = cmp.Or(q.Priority, "normal"), cmp.Or(q.TTL, DefaultTTL)
	if err := q.check(); err != nil {
		return Asked{}, err
	}
	if stored, found, err := questions.OfMessage(ctx, l, q.MessageID); err != nil || found {
		return Asked{Question: stored}, err // regardless of the devices there are now
	}
	k, to, err := readersOf(ctx, l)
	if err != nil {
		return Asked{}, err
	}
	defer k.close()
	_ = sweep(ctx, l, k) // the daemon's log and the doctor report failures, which are not about this question
	if to.shown(q.Encrypted) == 0 {
		return Asked{}, to.nobody()
	}
	draft, secret, err := q.seal(l, to)
	if err != nil {
		return Asked{}, err
	}
	folder := secret.folder()
	if err := k.write(folder, draft.ID, secret); err != nil {
		return Asked{}, err
	}
	stored, pushed, err := questions.Ask(ctx, l, draft)
	if err == nil && stored.ID == draft.ID {
		// A sweep removes a key if its row is missing for 10 minutes, for example after this machine was suspended.
		err := k.create(folder, draft.ID, secret)
		return Asked{stored, to.shown(q.Encrypted), to.told(pushed), to.unused}, err
	}
	if err == nil { // its message has caused a question in the meantime
		return Asked{stored, to.shown(q.Encrypted), to.told(pushed), to.unused}, k.remove(folder, draft.ID)
	}
	if _, gone := questions.Get(context.WithoutCancel(ctx), l,
		draft.ID); orchestrator.CodeOf(gone) == orchestrator.NotFound {
		err = errors.Join(err, k.remove(folder, draft.ID))
	}
	return Asked{}, err
}

// seal returns the row of a question, and the data that is kept beside the table.
func (q *Question) seal(l *ledger.Ledger, to readers) (questions.Draft, reply, error) {
	id, err := questions.NewSignalID(l, "q-")
	if err != nil {
		return questions.Draft{}, reply{}, err
	}
	now := l.Now()
	content := sealedQuestion{
		V: 1, Kind: "question", ID: id, From: q.Asker, Question: q.Question, Options: q.Options, Context: q.Context,
		Priority:  q.Priority,
		CreatedAt: orchestrator.Stamp(now), ExpiresAt: orchestrator.Stamp(now.Add(q.TTL)),
		ThreadID: q.ThreadID, InReplyTo: q.InReplyTo, ProjectID: q.ProjectID,
	}
	d := questions.Draft{
		ID: id, Asker: q.Asker, Encrypted: q.Encrypted, Priority: orchestrator.PriorityOf(content.Priority),
		SessionID: q.SessionID, ThreadID: q.ThreadID, InReplyTo: q.InReplyTo, ProjectID: q.ProjectID,
		MessageID: q.MessageID,
		TTL:       q.TTL, Devices: to.ids,
	}
	secret := reply{Asker: q.Asker, Options: q.Options, MessageID: q.MessageID}
	if !q.Encrypted {
		body, err := orchestrator.JSON(content)
		d.Body = string(body)
		return d, secret, err
	}
	if secret, err = newReply(&content); err == nil {
		d.Body, err = seal(content, to.recipients)
	}
	secret.MessageID = q.MessageID
	return d, secret, err
}

// check validates a question without repeating any of its content.
func (q *Question) check() error {
	if q.TTL < minTTL || q.TTL > orchestrator.MaxTTL {
		return orchestrator.InvalidParam("ttl", "must be 1 second to 30 days")
	}
	if err := checkText("question", q.Question, 1, maxQuestion); err != nil {
		return err
	}
	if err := checkText("context", q.Context, 0, maxContext); err != nil {
		return err
	}
	if err := CheckOptions(q.Options); err != nil {
		return err
	}
	return checkPriority(q.Priority)
}

// CheckOptions validates the options of a question; there may be none. Error: invalid_params, which does not repeat
// the options.
func CheckOptions(options []string) error {
	if len(options) > maxOptions {
		return orchestrator.InvalidParam("options", "there are %d options; the limit is %d", len(options), maxOptions).
			WithHint("To ask for a text answer, omit `options`")
	}
	for i, option := range options {
		if err := checkText("options", option, 1, maxOption); err != nil {
			return err
		}
		if slices.ContainsFunc(options[:i], func(other string) bool { return confusables.LookAlike(other, option) }) {
			return orchestrator.InvalidParam("options", "two options are the same or look the same")
		}
	}
	return nil
}

func checkText(parameter, text string, least, most int) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return orchestrator.InvalidParam(parameter, "must be UTF-8 text without NUL characters")
	}
	if least > 0 && !confusables.Shows(text) {
		return orchestrator.InvalidParam(parameter, "must contain visible text")
	}
	if n := utf8.RuneCountInString(text); n > most {
		return orchestrator.InvalidParam(parameter, "has %d characters; the limit is %d", n, most)
	}
	return nil
}

func checkPriority(word string) error {
	if !slices.Contains([]string{"low", "normal", "high"}, word) {
		return orchestrator.InvalidParam("priority", "must be low, normal, or high")
	}
	return nil
}

// readers are the devices that receive questions and alerts.
type readers struct {
	ids        []string        // of the devices that can decrypt
	recipients []age.Recipient // their keys
	ntfy       bool            // whether an ntfy topic, which can show only unencrypted content, is notified too
	unused     []string        // IDs of devices that are active in the table and were not approved here
	waiting    bool            // whether a device waits for approval
}

// shown returns how many readers can show a question or alert.
func (to *readers) shown(encrypted bool) int {
	if to.ntfy && !encrypted {
		return len(to.ids) + 1
	}
	return len(to.ids)
}

// told returns how many readers a question or alert is pushed to, given the number of devices it is pushed to.
func (to *readers) told(pushed int) int {
	if to.ntfy {
		return pushed + 1
	}
	return pushed
}

// readersOf opens the key folder and lists the readers. The caller closes the folder.
func readersOf(ctx context.Context, l *ledger.Ledger) (k *keys, to readers, err error) {
	if err := Here(ctx, l); err != nil {
		return nil, to, err
	}
	if k, err = openKeys(l, true); err != nil {
		return nil, to, err
	}
	if to, err = k.readers(ctx, l); err != nil {
		k.close()
		return nil, to, err
	}
	return k, to, nil
}

// readers lists the devices that are active in the table and were approved on this machine with the recipient that is
// in the table.
func (k *keys) readers(ctx context.Context, l *ledger.Ledger) (to readers, err error) {
	devices, err := questions.Devices(ctx, l)
	for i := range devices {
		d := &devices[i]
		switch {
		case d.State == questions.DeviceWaiting:
			to.waiting = true
		case d.State != questions.DeviceActive:
		case d.Kind == questions.DeviceNtfy:
			to.ntfy = d.PushHost != "" && d.PushProblem == ""
		default:
			recipient, err := k.pinned(d)
			if err != nil {
				return to, err
			}
			if recipient == nil {
				to.unused = append(to.unused, d.ID)
				continue
			}
			to.ids, to.recipients = append(to.ids, d.ID), append(to.recipients, recipient)
		}
	}
	return to, err
}

// nobody returns the error for a question that no device could show.
func (to *readers) nobody() error {
	e := orchestrator.Errorf(orchestrator.Unavailable, "no device can show the question")
	switch {
	case len(to.unused) > 0:
		return e.WithHint("The database lists these devices as active, but they were not approved on this machine: %s. To approve one, run %s",
			strings.Join(to.unused, ", "), approveHint)
	case to.waiting:
		return e.WithHint("A device is waiting for approval. To approve it, run %s", approveHint)
	case to.ntfy:
		return e.WithHint("The ntfy topic can show only questions that are not encrypted. Set `encrypt` to false, or pair a phone with `mailroom signal pair`")
	}
	return e.WithHint("Pair a phone with `mailroom signal pair`, or pair a browser on the Questions page of `mailroom console`")
}

// pinned returns the recipient that was approved for a device. It returns nil if none was, or if the table now has a
// different one.
func (k *keys) pinned(d *questions.Device) (age.Recipient, error) {
	if !plainID(d.ID) {
		return nil, nil // approved devices have IDs in our form
	}
	var pin devicePin
	err := k.read(devicesFolder, d.ID, &pin)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && pin.Recipient != d.Recipient) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return age.ParseX25519Recipient(pin.Recipient)
}
