package surface

import (
	"fmt"
	"mailroom/commands/surface/listener"
	"net/http"
	"time"
)

// readyWithin bounds how long /readyz waits for the database.
const readyWithin = 2 * time.Second

// healthy answers 200 as long as the process serves at all.
func healthy(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintln(rw, "ok") }

// ready answers 200 when the database can be read and written, otherwise 503 and why.
func ready(rw http.ResponseWriter, r *http.Request, readiness *glance[struct{}]) {
	if _, err := readiness.get(r.Context()); err != nil {
		listener.WriteFailure(rw, http.StatusServiceUnavailable, err)
		return
	}
	fmt.Fprintln(rw, "ok")
}
