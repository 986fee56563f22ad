package web

import (
	"net/http"

	"mailroom/commands/surface/listener"
	"mailroom/commands/surface/phone"
	"mailroom/orchestrator"
)

// DeskPath is below where the console's page asks as a device of the user's.
const DeskPath = "/v1/console/desk"

// deskHeader is where the page shows the token of its device, beside that of its session.
const deskHeader = "Mailroom-Device"

// desk serves what the page asks as a device: to a session of the console, and to nobody else.
func (w *Server) desk() http.Handler {
	next := phone.Desk(w.env.Ledger, w.env.Log, DeskPath)
	return w.authenticated(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if askerOf(r.Context()).token.Agent != orchestrator.Operator {
			listener.WriteFailure(rw, http.StatusForbidden,
				orchestrator.Errorf(orchestrator.PermissionDenied,
					"reading and answering questions requires a console login").
					WithHint("To log in, run `mailroom console`"))
			return
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+r.Header.Get(deskHeader))
		next.ServeHTTP(rw, r)
	}))
}
