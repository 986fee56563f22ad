package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator"
)

var administrator = Env{Caller: Caller{Admin: true}}

type greeting struct {
	Text string `json:"text"`
}

func TestRunPutsSuccessAndActionFirst(t *testing.T) {
	t.Parallel()
	d := Define(vocabularyOf("try", goodCard), "try", func(_ context.Context, _ Env, p needy) (greeting, error) {
		return greeting{Text: "<" + p.Name + " & all>"}, nil
	})
	answer, err := d.Run(t.Context(), administrator, json.RawMessage(`{"NAME":"you"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := orchestrator.JSON(answer)
	if want := `{"success":true,"action":"try","text":"<you & all>"}`; err != nil || string(got) != want {
		t.Errorf("answers %s, %v; want %s", got, err, want)
	}
	empty, err := orchestrator.JSON(Answer{Action: "try", Result: struct{}{}})
	if want := `{"success":true,"action":"try"}`; err != nil || string(empty) != want {
		t.Errorf("an empty result is %s, %v; want %s", empty, err, want)
	}
}

func TestRunTurnsBugsIntoInternal(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(context.Context, Env, struct{}) (greeting, error){
		"panic": func(context.Context, Env, struct{}) (greeting, error) { panic("boom") },
		"error with no code": func(context.Context, Env, struct{}) (greeting, error) {
			return greeting{},
				errors.New("boom")
		},
	} {
		d := Define(vocabularyOf("try", goodCard), "try", run)
		_, err := d.Run(t.Context(), administrator, nil)
		codeIs(t, err, orchestrator.Internal)
		var e *orchestrator.Error
		if !errors.As(err, &e) || e.Details["trace_id"] == nil || !strings.Contains(e.Error(), "boom") {
			t.Errorf("%s: %v, details %v; want the cause and a trace id", name, err, e)
		}
	}
}

// A problem with a file is not a bug, whichever command had it.
func TestRunKnowsFiles(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	for name, cause := range map[string]error{
		"a folder below a link": os.MkdirAll(filepath.Join(link, "below"), 0o700),
		"a new link":            os.Symlink("nowhere", link),
		"wrapped":               fmt.Errorf("reading: %w", func() error { _, err := os.ReadFile(link); return err }()),
	} {
		d := Define(vocabularyOf("try", goodCard), "try",
			func(context.Context, Env, struct{}) (greeting, error) { return greeting{}, cause })
		_, err := d.Run(t.Context(), administrator, nil)
		codeIs(t, err, orchestrator.Unavailable)
		var e *orchestrator.Error
		if !errors.As(err, &e) || strings.Contains(e.Error(), "bug") || !strings.Contains(e.Error(), link) ||
			e.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunKeepsCodes(t *testing.T) {
	t.Parallel()
	for code, cause := range map[orchestrator.Code]error{
		orchestrator.Conflict:    fmt.Errorf("wrapped: %w", orchestrator.Errorf(orchestrator.Conflict, "no")),
		orchestrator.Unavailable: fmt.Errorf("wrapped: %w", context.Canceled),
	} {
		d := Define(vocabularyOf("try", goodCard), "try",
			func(context.Context, Env, struct{}) (greeting, error) { return greeting{}, cause })
		_, err := d.Run(t.Context(), administrator, nil)
		codeIs(t, err, code)
	}
}

func TestRunAsksForTheRight(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rights  string
		caller  Caller
		refused bool
	}{
		{"admin", Caller{Name: "a"}, true},
		{"admin", Caller{Name: "a", Admin: true}, false},
		{"self", Caller{Name: "a"}, false},
	} {
		card := strings.Replace(goodCard, "rights: self", "rights: "+test.rights, 1)
		d := WithBatch(Define(vocabularyOf("try", card), "try", nothing[struct{}]),
			func(p *struct{}, _ Caller) (struct{}, error) { return *p, nil },
			func(_ context.Context, _ Env, ps []struct{}, _ bool) ([]struct{}, []error) {
				return ps, make([]error, len(ps))
			})
		_, err := d.Run(t.Context(), Env{Caller: test.caller}, nil)
		_, errs := d.DecodeBatch([]json.RawMessage{nil}).Run(t.Context(), Env{Caller: test.caller}, false)
		for _, err := range []error{err, errs[0]} {
			if (err != nil) != test.refused {
				t.Errorf("rights %s, caller %+v: %v", test.rights, test.caller, err)
			} else if err != nil {
				codeIs(t, err, orchestrator.PermissionDenied)
			}
		}
	}
}

// batchOf returns a command whose batch fails for the name "bad" and panics for "panic".
func batchOf() *Definition {
	one := Define(vocabularyOf("try", goodCard), "try", func(_ context.Context, _ Env, p needy) (greeting, error) {
		return greeting{Text: p.Name}, nil
	})
	return WithBatch(one, func(p *needy, _ Caller) (needy, error) { return *p, nil },
		func(_ context.Context, _ Env, ps []needy, atomic bool) ([]greeting, []error) {
			results, errs := make([]greeting, len(ps)), make([]error, len(ps))
			for i, p := range ps {
				results[i].Text = p.Name
				switch p.Name {
				case "bad":
					errs[i] = orchestrator.Errorf(orchestrator.UnknownRecipient, "no %s", p.Name)
				case "panic":
					panic("boom")
				}
			}
			return results, errs
		}).Definition
}

func lines(names ...string) (list []json.RawMessage) {
	for _, name := range names {
		list = append(list, json.RawMessage(name))
	}
	return list
}

func TestRunBatchKeepsPlaces(t *testing.T) {
	t.Parallel()
	answers, errs := batchOf().DecodeBatch(lines(`{"name":"a"}`, `{"name":1}`, `{"name":"bad"}`,
		`{"name":"d"}`)).Run(t.Context(), administrator, false)
	codeIs(t, errs[1], orchestrator.InvalidParams)
	codeIs(t, errs[2], orchestrator.UnknownRecipient)
	for i, want := range map[int]string{0: "a", 3: "d"} {
		if got, ok := answers[i].Result.(greeting); errs[i] != nil || !ok || got.Text != want {
			t.Errorf("answer %d is %+v, %v; want %s", i, answers[i], errs[i], want)
		}
	}
}

func TestRunBatchDoesNothingAtomicallyWithOneBadLine(t *testing.T) {
	t.Parallel()
	answers, errs := batchOf().DecodeBatch(lines(`{"name":"panic"}`, `{"nam":1}`)).Run(t.Context(), administrator, true)
	if errs[0] != nil || answers[0].Result != nil {
		t.Errorf("the good line gave %+v, %v; the handler ran", answers[0], errs[0])
	}
	codeIs(t, errs[1], orchestrator.InvalidParams)
}

func TestRunBatchFailsAsAWholeWhenItsHandlerPanics(t *testing.T) {
	t.Parallel()
	_, errs := batchOf().DecodeBatch(lines(`{"name":"a"}`, `{"name":"panic"}`)).Run(t.Context(), administrator, false)
	for _, err := range errs {
		codeIs(t, err, orchestrator.Internal)
	}
}

func TestActAs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		caller, named string
		shell         bool
		want          string
		code          orchestrator.Code
	}{
		{"", "architect", false, "architect", ""},
		{"", "architect", true, "architect", ""},
		{"architect", "", true, "architect", ""},
		{"architect", "architect", false, "architect", ""},
		{"", "", true, orchestrator.Operator, ""},
		{"", "", false, "", orchestrator.InvalidParams}, // a schedule
		{"architect", "code_developer", true, "", orchestrator.PermissionDenied},
	} {
		got, err := ActAs(Caller{Name: test.caller, Shell: test.shell, Admin: true}, test.named)
		if test.code != "" {
			codeIs(t, err, test.code)
		} else if err != nil || got != test.want {
			t.Errorf("caller %q, named %q: %q, %v; want %q", test.caller, test.named, got, err, test.want)
		}
	}
}

func TestFailureIsDocument004s(t *testing.T) {
	t.Parallel()
	retries := 3
	for want, err := range map[string]error{
		`{"success":false,"error":"delivery_timeout","message":"gave up: <late>","hint":"See why","message_id":"msg-001","recipient":"code_developer","retry_count":3,"a":1,"b":[2]}`: fmt.Errorf("wrapped: %w", &orchestrator.Error{
			Code: orchestrator.DeliveryTimeout, Message: "gave up", Hint: "See why", MessageID: "msg-001",
			Recipient:  "code_developer",
			RetryCount: &retries, Details: map[string]any{"b": []int{2}, "a": 1}, Err: errors.New("<late>"),
		}),
		`{"success":false,"error":"internal","message":"plain"}`: errors.New("plain"),
	} {
		if got, merr := orchestrator.JSON(Failure{Err: err}); merr != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, merr, want)
		}
	}
}

// TestStatuses repeats the table of the contract.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for code, want := range map[orchestrator.Code]standing{
		"invalid_params": {64, 400}, "unknown_command": {64, 404}, "unknown_recipient": {66, 404},
		"unknown_sender": {66, 404},
		"not_found":      {66, 404}, "permission_denied": {77, 403}, "unauthenticated": {77, 401}, "conflict": {65, 409},
		"delivery_timeout": {1, 502}, "delivery_failed": {1, 502}, "expired": {1, 502}, "busy": {75, 503},
		"unavailable": {75, 503},
		"internal":    {70, 500}, "a code that nobody knows": {70, 500},
	} {
		err := fmt.Errorf("wrapped: %w", orchestrator.Errorf(code, "x"))
		if got := (standing{ExitStatus(err), HTTPStatus(err)}); got != want {
			t.Errorf("%s is %+v; want %+v", code, got, want)
		}
	}
	if ExitStatus(nil) != 0 || HTTPStatus(nil) != 200 || ExitStatus(errors.New("x")) != 70 {
		t.Error("nil or an error without a code has another status than 0, 200 and 70")
	}
}
