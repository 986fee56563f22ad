package listener

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// Methods maps HTTP methods to the handlers of a path.
type Methods map[string]http.Handler

// Handle serves a path for some methods and refuses the others.
func Handle(mux *http.ServeMux, path string, methods Methods) {
	var names []string
	for name, h := range methods {
		mux.Handle(name+" "+path, h)
		names = append(names, name)
	}
	slices.Sort(names)
	allowed := strings.Join(names, ", ")
	mux.HandleFunc(path, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Allow", allowed)
		WriteFailure(rw, http.StatusMethodNotAllowed,
			orchestrator.Errorf(orchestrator.InvalidParams, "the address does not support the method %s",
				orchestrator.Clip(r.Method)).
				WithHint("Use %s", allowed))
	})
}

// WriteFailure answers with an error in the form of document 004.
func WriteFailure(rw http.ResponseWriter, status int, err error) {
	body, merr := orchestrator.JSON(commands.Failure{Err: err})
	if merr != nil {
		body = []byte(`{"success":false,"error":"internal"}`)
	}
	if status == http.StatusUnauthorized {
		rw.Header().Set("WWW-Authenticate", `Bearer realm="mailroom"`)
	}
	WriteJSON(rw, status, body)
}

// WriteJSON answers with JSON and returns the error if writing failed. It sets Content-Length, so that a client which
// has received the whole answer can disconnect without waiting for the end of the stream.
func WriteJSON(rw http.ResponseWriter, status int, body ...[]byte) error {
	body = append(slices.Clip(body), []byte{'\n'})
	size := 0
	for _, piece := range body {
		size += len(piece)
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "no-store")
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	rw.Header().Set("Content-Length", strconv.Itoa(size))
	rw.WriteHeader(status)
	for _, piece := range body {
		if _, err := rw.Write(piece); err != nil {
			return err
		}
	}
	return http.NewResponseController(rw).Flush()
}

// TooMany answers 429 to a client that sends too many requests, and returns the error in the answer.
func TooMany(rw http.ResponseWriter, why string) error {
	return later(rw, http.StatusTooManyRequests, why)
}

// Full answers 503 if all clients together send too many requests.
func Full(rw http.ResponseWriter, why string) { later(rw, http.StatusServiceUnavailable, why) }

func later(rw http.ResponseWriter, status int, why string) error {
	err := orchestrator.Errorf(orchestrator.Busy, "%s", why).WithHint("Wait one second, and then try again")
	rw.Header().Set("Retry-After", "1")
	WriteFailure(rw, status, err)
	return err
}

// NothingAt returns a handler that answers 404, with a hint on which paths exist.
func NothingAt(hint string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		WriteFailure(rw, http.StatusNotFound,
			orchestrator.Errorf(orchestrator.NotFound, "there is nothing at %s", orchestrator.Clip(r.URL.Path)).
				WithHint("%s", hint))
	}
}
