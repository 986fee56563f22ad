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

// BearerOf returns the token of a request, or unauthenticated with a hint on how to get a token.
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

// ReadAll reads the whole body, of at most most bytes, so that a slow body delays only its own request and the
// handler may take its time. It accepts only JSON and removes a byte order mark. It reports whether it succeeded;
// otherwise it has written an answer.
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

// Astray reports whether the path of a request is not in its shortest form, such as /a/../b, which http.ServeMux
// would redirect.
func Astray(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, "/") || r.URL.Path != path.Clean(r.URL.Path)
}
