package commands

import (
	"bytes"
	"errors"

	"mailroom/orchestrator"
)

// standing is what a code means to the outside: the exit status of a process and the status of an HTTP answer.
// Source: contract, "The command line".
type standing struct{ exit, http int }

var standings = map[orchestrator.Code]standing{
	orchestrator.InvalidParams:    {64, 400},
	orchestrator.UnknownCommand:   {64, 404},
	orchestrator.UnknownRecipient: {66, 404},
	orchestrator.UnknownSender:    {66, 404},
	orchestrator.NotFound:         {66, 404},
	orchestrator.PermissionDenied: {77, 403},
	orchestrator.Unauthenticated:  {77, 401},
	orchestrator.Conflict:         {65, 409},
	orchestrator.DeliveryTimeout:  {1, 502},
	orchestrator.DeliveryFailed:   {1, 502},
	orchestrator.MessageExpired:   {1, 502},
	orchestrator.Busy:             {75, 503},
	orchestrator.Unavailable:      {75, 503},
	orchestrator.Internal:         {70, 500},
}

// ExitStatus maps an error to the exit status of the process, 0 for nil. It is never 2, which hosts of agents read as
// "block"; `hook wake` ends so without an error.
func ExitStatus(err error) int {
	if err == nil {
		return 0
	}
	return standingOf(err).exit
}

// HTTPStatus maps an error to the status of an HTTP answer, 200 for nil.
func HTTPStatus(err error) int {
	if err == nil {
		return 200
	}
	return standingOf(err).http
}

// standingOf looks an error's code up. A code that the table lacks is a bug, and counts as one.
func standingOf(err error) standing {
	if s, ok := standings[orchestrator.CodeOf(err)]; ok {
		return s
	}
	return standings[orchestrator.Internal]
}

// Failure is the answer of a command that failed, in document 004's form.
type Failure struct{ Err error }

// MarshalJSON writes success, error, message, and what else is known: message_id, recipient, retry_count, hint.
func (f Failure) MarshalJSON() ([]byte, error) {
	var e *orchestrator.Error
	if !errors.As(f.Err, &e) {
		e = &orchestrator.Error{Code: orchestrator.Internal, Message: f.Err.Error()}
	}
	known, err := orchestrator.JSON(struct {
		Success    bool              `json:"success"`
		Error      orchestrator.Code `json:"error"`
		Message    string            `json:"message"`
		Hint       string            `json:"hint,omitempty"`
		MessageID  string            `json:"message_id,omitempty"`
		Recipient  string            `json:"recipient,omitempty"`
		RetryCount *int              `json:"retry_count,omitempty"`
	}{false, e.Code, e.WithoutHint(), e.Hint, e.MessageID, e.Recipient, e.RetryCount})
	if err != nil || len(e.Details) == 0 {
		return known, err
	}
	details, err := orchestrator.JSON(e.Details)
	return joinObjects(known, details), err
}

// joinObjects returns a JSON object with the members of two, whose keys differ.
func joinObjects(a, b []byte) []byte {
	a, b = bytes.TrimSuffix(a, []byte("}")), bytes.TrimPrefix(b, []byte("{"))
	if len(a) > 1 && len(b) > 1 {
		a = append(a, ',')
	}
	return append(a, b...)
}
