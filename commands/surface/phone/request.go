package phone

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"unicode/utf8"

	"mailroom/commands"
	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
	"mailroom/tracing"
)

// act performs the request of a device. Its result becomes the JSON of the answer.
type act func(r *http.Request, d questions.Device) (any, error)

// waiting returns a handler for devices with a valid token, including those that wait for approval. command is the
// name of the span to record, or "" for an operation that changes nothing and is not recorded.
func (s *service) waiting(command string, do act) http.Handler { return s.known(true, command, do) }

// active returns a handler for approved devices. command is the name of the span to record, or "" to record none.
func (s *service) active(command string, do act) http.Handler { return s.known(false, command, do) }

// known returns a handler that identifies the device and limits its concurrent requests.
func (s *service) known(waitingToo bool, command string, do act) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		d, err := s.authenticate(rw, r)
		if err != nil {
			return
		}
		if d.State != questions.DeviceActive && !waitingToo {
			err := orchestrator.Errorf(orchestrator.PermissionDenied, "this device is not approved yet").
				WithHint("Compare the fingerprint that the device shows, and run `mailroom signal device approve FINGERPRINT`")
			err.Details = map[string]any{"state": d.State}
			s.fail(rw, r, err)
			return
		}
		if !s.devices.Enter(d.ID, deviceAtOnce) {
			listener.TooMany(rw, "too many concurrent requests from this device")
			return
		}
		defer s.devices.Leave(d.ID)
		s.run(rw, r, func(r *http.Request) (any, error) {
			if command == "" {
				return do(r, d)
			}
			return s.traced(r, command, push.DevicePrefix+d.ID, true, func(r *http.Request) (any, error) { return do(r, d) })
		})
	})
}

// authenticate identifies the device of a request. A device counts as approved only if somebody approved its current
// key on this machine. The table alone is not sufficient, since other programs may write to it. On an error,
// authenticate has already answered the request.
func (s *service) authenticate(rw http.ResponseWriter, r *http.Request) (d questions.Device, err error) {
	secret, err := listener.BearerOf(r, "Pair this device again. To get a code, run `mailroom signal pair`")
	if err == nil {
		d, err = questions.DeviceOfToken(r.Context(), s.ledger, secret)
	}
	if err == nil && d.Kind != s.kind {
		err = orchestrator.Errorf(orchestrator.Unauthenticated, "the token belongs to another kind of device")
	}
	if err == nil && d.State == questions.DeviceActive {
		var approved []string
		if approved, err = person.Approved(s.ledger, []questions.Device{d}); len(approved) == 0 {
			d.State = questions.DeviceWaiting
		}
	}
	switch {
	case orchestrator.CodeOf(err) == orchestrator.Unauthenticated && !s.strangers.Allow():
		return d, listener.TooMany(rw, "too many requests without a valid token")
	case err == nil && !s.devices.Allow(d.ID):
		return d, listener.TooMany(rw, "too many requests from this device")
	}
	if err != nil {
		s.fail(rw, r, err)
	}
	return d, err
}

// run reads the body, calls do and answers.
func (s *service) run(rw http.ResponseWriter, r *http.Request, do func(*http.Request) (any, error)) {
	if !listener.ReadAll(rw, r, maxBody) {
		return
	}
	result, err := do(r)
	s.reply(rw, r, result, err)
}

// reply answers with a result or an error.
func (s *service) reply(rw http.ResponseWriter, r *http.Request, result any, err error) {
	var body []byte
	if err == nil {
		body, err = orchestrator.JSON(result)
	}
	if err != nil {
		s.fail(rw, r, err)
		return
	}
	listener.WriteJSON(rw, http.StatusOK, body)
}

// traced runs do within a span. known reports that the caller is authenticated. For other callers, a failure leaves
// no span unless something was changed, since strangers could fill the disk with such spans.
func (s *service) traced(r *http.Request, command, caller string, known bool, do func(*http.Request) (any, error)) (any, error) {
	ctx, span := tracing.Start(r.Context(), command)
	span.Kind, span.Caller = tracing.Server, caller
	span.Set(tracing.AttrSystem, "mailroom")
	span.Set(tracing.AttrOperation, command)
	span.Begin(s.ledger.Now())
	result, err := do(r.WithContext(ctx))
	if err == nil || known || span.Saved() {
		s.ledger.EndSpan(ctx, span, err, func() bool { return false })
	}
	return result, err
}

// fail answers with an error. It writes problems of the daemon's machine to the log instead of sending them to the
// phone.
func (s *service) fail(rw http.ResponseWriter, r *http.Request, err error) {
	switch code := orchestrator.CodeOf(err); code {
	case orchestrator.Internal, orchestrator.Unavailable, orchestrator.Busy:
		if r.Context().Err() == nil {
			s.log.Error("a request from a phone failed", "route", r.Pattern, "error", err)
		}
		err = orchestrator.Errorf(code, "the daemon could not process the request").WithHint("See the daemon's log for the reason, and try again later")
	}
	listener.WriteFailure(rw, commands.HTTPStatus(err), err)
}

// decode decodes a body strictly into v. It returns invalid_params for an invalid body, without repeating the body.
func decode(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if err := orchestrator.CheckPairs("the body", body); err != nil {
		return err
	}
	read := json.NewDecoder(bytes.NewReader(body))
	read.DisallowUnknownFields()
	err = read.Decode(v)
	if _, end := read.Token(); err != nil || end != io.EOF || !utf8.Valid(body) {
		return orchestrator.Errorf(orchestrator.InvalidParams, "the body must be the JSON object that this endpoint expects")
	}
	return nil
}
