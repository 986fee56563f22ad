package phone

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
)

// item is a question or an alert in the form for a device: encrypted, or with the content as JSON.
type item struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind"` // question or alert
	Encrypted  bool            `json:"encrypted"`
	Ciphertext string          `json:"ciphertext,omitempty"` // base64 of an age file
	Text       json.RawMessage `json:"text,omitempty"`
	Status     string          `json:"status,omitempty"` // of a question
	CreatedAt  string          `json:"createdAt"`
	ExpiresAt  string          `json:"expiresAt,omitempty"`
}

func newItem(id, kind string, encrypted bool, body string) item {
	i := item{ID: id, Kind: kind, Encrypted: encrypted}
	switch {
	case encrypted:
		i.Ciphertext = body
	case json.Valid([]byte(body)): // an invalid hand-written row affects only itself
		i.Text = json.RawMessage(body)
	}
	return i
}

func questionItem(q questions.Question) item {
	i := newItem(q.ID, "question", q.Encrypted, q.Body)
	i.Status, i.CreatedAt, i.ExpiresAt = string(q.Status), q.CreatedAt, q.ExpiresAt
	return i
}

func alertItem(a questions.Alert) item {
	i := newItem(a.ID, "alert", a.Encrypted, a.Body)
	i.CreatedAt = a.CreatedAt
	return i
}

// signals returns the open questions and the alerts for a device.
func (s *service) signals(r *http.Request, d questions.Device) (any, error) {
	questions, alerts, err := questions.SignalsFor(r.Context(), s.ledger, d)
	if err != nil {
		return nil, err
	}
	list := struct {
		Questions []item `json:"questions"`
		Alerts    []item `json:"alerts"`
	}{[]item{}, []item{}}
	for _, q := range questions {
		list.Questions = append(list.Questions, questionItem(q))
	}
	for _, a := range alerts {
		list.Alerts = append(list.Alerts, alertItem(a))
	}
	return list, nil
}

// signal returns one question or alert, even if the question has ended.
func (s *service) signal(r *http.Request, d questions.Device) (any, error) {
	if !strings.HasPrefix(r.PathValue("id"), "q-") {
		a, err := questions.GetAlert(r.Context(), s.ledger, r.PathValue("id"))
		return alertItem(a), err
	}
	q, err := s.question(r, d)
	return questionItem(q), err
}

// question returns the question that a path names. It refuses a question that was encrypted before the device was
// approved, since the question is for other devices.
func (s *service) question(r *http.Request, d questions.Device) (questions.Question, error) {
	q, err := questions.Get(r.Context(), s.ledger, r.PathValue("id"))
	if err == nil && q.Encrypted && q.CreatedAt < d.ApprovedAt {
		err = orchestrator.Errorf(orchestrator.NotFound, "the question %s was asked before this device was approved", q.ID)
	}
	return q, err
}

// reply is an answer as sent by a device: either encrypted, or an option, a text, or both.
type reply struct {
	Ciphertext *string `json:"ciphertext,omitempty"`
	Option     *int    `json:"option,omitempty"`
	Text       *string `json:"text,omitempty"`
}

// answered is the result for a device whose answer was accepted.
var answered = map[string]questions.Status{"status": questions.Answered}

// answer answers a question. It stores an encrypted answer unchanged, since only the asker can decrypt it. A device
// that did not receive the result sends the answer again and gets the same result.
func (s *service) answer(r *http.Request, d questions.Device) (any, error) {
	var given reply
	if err := decode(r, &given); err != nil {
		return nil, err
	}
	q, err := s.question(r, d)
	if err != nil {
		return nil, err
	}
	text, err := given.check(q)
	if err != nil {
		return nil, err
	}
	if _, err = questions.Answer(r.Context(), s.ledger, q.ID, d.ID, text); orchestrator.CodeOf(err) == orchestrator.Conflict {
		if now, again := questions.Get(r.Context(), s.ledger, q.ID); again == nil && now.AnsweredBy == d.ID && now.Answer == text {
			err = nil
		}
	}
	return answered, err
}

// check returns an answer in the form in which it is stored. Package questions checks whether the answer fits the
// question. check returns invalid_params for an invalid answer, without repeating it.
func (a reply) check(q questions.Question) (string, error) {
	clear := a.Option != nil || a.Text != nil
	switch {
	case clear == (a.Ciphertext != nil):
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "an answer must have either `ciphertext`, or at least one of `option` and `text`")
	case q.Encrypted && a.Ciphertext == nil:
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "the question is encrypted, so its answer must be encrypted")
	case q.Encrypted:
		return *a.Ciphertext, checkSealed(*a.Ciphertext)
	case a.Ciphertext != nil:
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "the question is not encrypted, so its answer must not be encrypted")
	}
	body, err := orchestrator.JSON(a)
	return string(body), err
}

// checkSealed refuses a text that is not base64 of an age file.
func checkSealed(text string) error {
	sealed, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || !strings.HasPrefix(string(sealed), "age-encryption.org/v1\n") {
		return orchestrator.Errorf(orchestrator.InvalidParams, "ciphertext: not a base64-encoded age file")
	}
	return nil
}

// button answers the buttons of ntfy notifications. Only wrong tokens count against the rate, so that nobody can
// block valid ones.
func (s *service) button(rw http.ResponseWriter, r *http.Request) {
	result, err := s.traced(r, "phone once", push.DevicePrefix+questions.DeviceNtfy, false, s.once)
	if orchestrator.CodeOf(err) == orchestrator.PermissionDenied && !s.strangers.Allow() {
		listener.TooMany(rw, "too many requests without a valid token")
		return
	}
	s.reply(rw, r, result, err)
}

// once answers a question through the button of an ntfy notification. The URL of the button works for one answer.
func (s *service) once(r *http.Request) (any, error) {
	option, err := strconv.Atoi(r.PathValue("option"))
	if err != nil {
		return nil, orchestrator.Errorf(orchestrator.PermissionDenied, "the address of the button must contain an option number")
	}
	if err := questions.NtfyOption(r.Context(), s.ledger, r.PathValue("id"), option, r.PathValue("token")); err != nil {
		return nil, err
	}
	return answered, nil
}
