package phone

import (
	"net/http"

	"filippo.io/age"

	"mailroom/commands"
	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
)

// paired is the answer to a pairing code.
type paired struct {
	Device      string `json:"device"`
	Token       string `json:"token"`
	Fingerprint string `json:"fingerprint"`
	State       string `json:"state"`
}

// pairing answers requests with a pairing code. Only failed attempts count against the rate, which all callers share,
// so that nobody can lock out the owner. The number of guesses at a code is limited by the code's own count of
// attempts.
func (s *service) pairing(rw http.ResponseWriter, r *http.Request) {
	if !listener.ReadAll(rw, r, maxBody) {
		return
	}
	result, err := s.traced(r, "phone pair", push.DevicePrefix+"unknown", false, s.pair)
	if err != nil && !s.codes.Allow() {
		listener.TooMany(rw, "too many attempts to pair")
		return
	}
	s.reply(rw, r, result, err)
}

// pair exchanges a code for a token. The device then waits for its approval.
func (s *service) pair(r *http.Request) (any, error) {
	var body struct{ Code, Name, Recipient string }
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	if err := checkRecipient(body.Recipient); err != nil {
		return nil, err
	}
	d, token, err := questions.Pair(r.Context(), s.ledger, questions.PairRequest{Code: body.Code, Name: body.Name, Recipient: body.Recipient})
	if err != nil {
		return nil, err
	}
	return paired{d.ID, token, d.Fingerprint, d.State}, nil
}

// checkRecipient refuses a text that is not a public key of age, or to which nothing can be encrypted: one such
// device would prevent every question.
func checkRecipient(text string) error {
	recipient, err := age.ParseX25519Recipient(text)
	if err == nil {
		_, err = recipient.Wrap(make([]byte, 16))
	}
	if err != nil {
		return orchestrator.Errorf(orchestrator.InvalidParams, "recipient: not a valid age public key").WithHint("Use a key that begins with age1 and has 62 lowercase characters")
	}
	return nil
}

// deviceState is the state of a device, for the device itself.
type deviceState struct {
	Device      string `json:"device"`
	Name        string `json:"name"`
	State       string `json:"state"`
	Fingerprint string `json:"fingerprint"`
	VAPIDKey    string `json:"vapidKey"`
	Push        string `json:"push"`
	Project     string `json:"project"` // short name of the database for people
}

func (s *service) device(r *http.Request, d questions.Device) (any, error) {
	key, err := questions.VAPIDPublicKey(r.Context(), s.ledger)
	if err != nil {
		return nil, err
	}
	push := "ok"
	switch {
	case d.PushProblem != "":
		push = "problem: " + d.PushProblem
	case d.PushHost == "":
		push = "none"
	}
	return deviceState{d.ID, d.Name, d.State, d.Fingerprint, key, push, commands.ProjectName(s.ledger.Path())}, nil
}

// unpair revokes the device that sent the request.
func (s *service) unpair(r *http.Request, d questions.Device) (any, error) {
	d, err := person.Revoke(r.Context(), s.ledger, d.ID)
	return map[string]string{"state": d.State}, err
}

// subscribe stores the browser's PushSubscription; package questions validates it.
func (s *service) subscribe(r *http.Request, d questions.Device) (any, error) {
	var body struct {
		Endpoint       string
		ExpirationTime any // sent by browsers; push services themselves report expired subscriptions
		Keys           struct{ P256dh, Auth string }
	}
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	return map[string]string{"push": "ok"}, questions.Subscribe(r.Context(), s.ledger, d.ID, questions.Subscription{Endpoint: body.Endpoint, P256dh: body.Keys.P256dh, Auth: body.Keys.Auth})
}

func (s *service) unsubscribe(r *http.Request, d questions.Device) (any, error) {
	return map[string]string{"push": "none"}, questions.Unsubscribe(r.Context(), s.ledger, d.ID)
}
