package orchestrator

import (
	"errors"
	"fmt"
)

// Code identifies a kind of failure. A code never changes; compare codes, never the texts of errors. The command
// line, the HTTP server and the MCP server map codes to exit statuses, HTTP statuses or MCP errors. Source:
// contract, "The command line".
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
	MessageExpired   Code = "expired"
	Busy             Code = "busy"
	Unavailable      Code = "unavailable"
	Internal         Code = "internal"
)

// Error describes a failure: what was refused, and what to do about it. The zero value of every field except Code
// and Message means that the field does not apply.
type Error struct {
	Code       Code
	Message    string // what happened, and to which object
	Hint       string // what to do next
	MessageID  string
	Recipient  string
	RetryCount *int
	Details    map[string]any // further keys of the JSON response
	Unknown    string         // the agent name that does not exist, if that is the failure
	Err        error          // cause
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.WithoutHint()
	}
	return e.WithoutHint() + ". " + e.Hint
}

// WithoutHint returns the text of the error without its hint.
func (e *Error) WithoutHint() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the Error in err's chain, or Internal if the chain has none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// Errorf returns an Error without a hint. It does not set Err. For an error with a cause, fill in the struct.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// InvalidParam returns an Error with the code InvalidParams that names the parameter in its text and in its
// Details.
func InvalidParam(parameter, format string, args ...any) *Error {
	e := Errorf(InvalidParams, "%s: %s", parameter, fmt.Sprintf(format, args...))
	e.Details = map[string]any{"parameter": parameter}
	return e
}

// WithHint sets the hint (what to do next) and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}
