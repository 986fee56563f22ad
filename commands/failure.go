package commands

import (
	"bytes"
	"errors"

	"mailroom/orchestrator"
)

// standing is the exit status and the HTTP status of an error code. Source: contract, "The command line".
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

// ExitStatus returns the exit status for an error, 0 for nil. The status is never 2, which agent hosts interpret as
// "block"; `hook wake` exits with 2, but not because of an error.
func ExitStatus(err error) int {
	if err == nil {
		return 0
	}
	return standingOf(err).exit
}

// HTTPStatus returns the HTTP status for an error, 200 for nil.
func HTTPStatus(err error) int {
	if err == nil {
		return 200
	}
	return standingOf(err).http
}

// standingOf looks up the code of an error. A code missing from the table is a bug, and counts as internal.
func standingOf(err error) standing {
	if s, ok := standings[orchestrator.CodeOf(err)]; ok {
		return s
	}
	return standings[orchestrator.Internal]
}

// Failure is the answer of a command that failed, in the form of document 004.
type Failure struct{ Err error }

// MarshalJSON writes success, error and message, and those of message_id, recipient, retry_count and hint that are
// known.
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

// joinObjects returns a JSON object with the members of both objects. Their keys must differ.
func joinObjects(a, b []byte) []byte {
	a, b = bytes.TrimSuffix(a, []byte("}")), bytes.TrimPrefix(b, []byte("{"))
	if len(a) > 1 && len(b) > 1 {
		a = append(a, ',')
	}
	return append(a, b...)
}
