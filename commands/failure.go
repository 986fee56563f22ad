package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

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
	orchestrator.Expired:          {1, 502},
	orchestrator.Busy:             {75, 503},
	orchestrator.Unavailable:      {75, 503},
	orchestrator.Internal:         {70, 500},
}

// ExitStatus maps an error to the exit status of the process, 0 for nil. It is never 2, which hosts of agents read as
// "block".
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
	plain := *e
	plain.Hint = ""
	o := object{}
	o.add("success", false)
	o.add("error", e.Code)
	o.add("message", plain.Error())
	if e.Hint != "" {
		o.add("hint", e.Hint)
	}
	if e.MessageID != "" {
		o.add("message_id", e.MessageID)
	}
	if e.Recipient != "" {
		o.add("recipient", e.Recipient)
	}
	if e.RetryCount != nil {
		o.add("retry_count", *e.RetryCount)
	}
	for _, key := range slices.Sorted(maps.Keys(e.Details)) {
		o.add(key, e.Details[key])
	}
	return o.close()
}

// object writes a JSON object key by key.
type object struct {
	b   bytes.Buffer
	err error
}

func (o *object) add(key string, value any) {
	v, err := orchestrator.JSON(value)
	o.err = errors.Join(o.err, err)
	if o.b.Len() == 0 {
		o.b.WriteByte('{')
	} else {
		o.b.WriteByte(',')
	}
	o.b.Write(orchestrator.JSONString(key))
	o.b.WriteByte(':')
	o.b.Write(v)
}

func (o *object) close() (json.RawMessage, error) {
	if o.b.Len() == 0 {
		o.b.WriteByte('{')
	}
	o.b.WriteByte('}')
	return o.b.Bytes(), o.err
}
