package store

import (
	"errors"
	"strings"
	"testing"

	"mailroom/orchestrator"
)

// An error after the database was saved names the copy, and keeps its code and cause.
func TestErrorsNameTheSavedCopy(t *testing.T) {
	t.Parallel()
	cause := errors.New("no space")
	r := Restored{Previous: "/x/mail.db.before"}
	for hint, err := range map[string]error{
		"The previous database is saved in /x/mail.db.before":            cause,
		"Free some. The previous database is saved in /x/mail.db.before": &orchestrator.Error{Code: orchestrator.Unavailable, Message: "full", Err: cause, Hint: "Free some"},
	} {
		named, ok := errors.AsType[*orchestrator.Error](r.NamePrevious(err))
		if !ok || named.Hint != hint || !errors.Is(named, cause) || named.Code != orchestrator.CodeOf(err) ||
			strings.Count(named.Error(), "no space") != 1 {
			t.Errorf("%+v of %v", named, err)
		}
	}
	if (&Restored{}).NamePrevious(cause) != cause || r.NamePrevious(nil) != nil {
		t.Error("there is nothing to name")
	}
}
