package orchestrator

import (
	"errors"
	"fmt"
)

// Code is the stable name of a kind of failure. Surfaces map it to an exit status, an HTTP status or an MCP error;
// programs compare codes, never texts. Source: contract, "The command line".
type Code string

// The codes, one per row of the contract's table.
const (
	InvalidParams    Code = "invalid_params"
	UnknownCommand   Code = "unknown_command"
	UnknownRecipient Code = "unknown_recipient"
	UnknownSender    Code = "unknown_sender"
	NotFound         Code = "not_found"
	PermissionDenied Code = "permission_denied"
	Unauthenticated  Code = "unauthenticated"
	Conflict         Code = "conflict"
	DeliveryTimeout  Code = "delivery_timeout"
	DeliveryFailed   Code = "delivery_failed"
	Expired          Code = "expired"
	Busy             Code = "busy"
	Unavailable      Code = "unavailable"
	Internal         Code = "internal"
)

// Error is a failure with what an operator needs: what was refused, and what to do next.
// The zero value of every field but Code and Message means "does not apply".
type Error struct {
	Code       Code
	Message    string // what happened, to what
	Hint       string // what to do next
	MessageID  string
	Recipient  string
	RetryCount *int
	Details    map[string]any // further keys of the JSON answer
	Unknown    string         // name of an agent that nobody has, which is what is wrong
	Err        error          // cause
}

func (e *Error) Error() string {
	text := e.Message
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		text += ". " + e.Hint
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code that err carries, and Internal for an error that carries none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

// Errorf makes an Error without a hint. A trailing error argument under %w becomes its cause only through fmt; use the
// struct to keep the cause apart.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithHint returns e with the advice what to do next.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}
