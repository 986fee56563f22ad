package listener

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"mailroom/orchestrator"
)

// BearerOf reads the token of a request. Error: unauthenticated, with a hint that says how to get one.
func BearerOf(r *http.Request, hint string) (string, error) {
	headers := r.Header.Values("Authorization")
	switch {
	case len(headers) == 0:
		return "", orchestrator.Errorf(orchestrator.Unauthenticated, "the request has no Authorization header").
			WithHint("%s", hint)
	case len(headers) > 1:
		return "", orchestrator.Errorf(orchestrator.Unauthenticated,
			"the request must have one Authorization header, but has %d", len(headers)).WithHint("%s", hint)
	}
	scheme, secret, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", orchestrator.Errorf(orchestrator.Unauthenticated, "the Authorization header has no bearer token").
			WithHint("%s", hint)
	}
	return strings.TrimSpace(secret), nil
}

// ReadAll reads the whole body, most bytes of it at most, so that a slow one holds nothing but its own request, and
// what follows may take its time. Only JSON may stand in it; a byte order mark before it is left out. It reports
// whether it could; otherwise it has answered.
func ReadAll(rw http.ResponseWriter, r *http.Request, most int64) bool {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		WriteFailure(rw, http.StatusUnsupportedMediaType,
			orchestrator.Errorf(orchestrator.InvalidParams, "the body must not be encoded, but is encoded as %s", orchestrator.Clip(coding)).
				WithHint("Send the body without Content-Encoding"))
		return false
	}
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, most))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		WriteFailure(rw, http.StatusRequestEntityTooLarge,
			orchestrator.Errorf(orchestrator.InvalidParams, "the body has more than %d bytes", most))
		return false
	case err != nil:
		WriteFailure(rw, http.StatusRequestTimeout,
			&orchestrator.Error{Code: orchestrator.InvalidParams, Message: "cannot read the body", Err: err})
		return false
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); len(body) > 0 &&
		(err != nil || kind != "application/json") {
		WriteFailure(rw, http.StatusUnsupportedMediaType,
			orchestrator.Errorf(orchestrator.InvalidParams, "the body must have the type application/json").
				WithHint("Send a JSON object with Content-Type: application/json"))
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(orchestrator.WithoutMark(body)))
	http.NewResponseController(rw).SetReadDeadline(time.Time{})
	return true
}

// Astray reports whether the path of a request is not in its shortest form, such as /a/../b: http.ServeMux would
// redirect it.
func Astray(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, "/") || r.URL.Path != path.Clean(r.URL.Path)
}
