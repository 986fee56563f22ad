package web

import (
	"net/http"

	"mailroom/commands/surface/listener"
	"mailroom/commands/surface/phone"
	"mailroom/orchestrator"
)

// DeskPath is the prefix of the paths at which the console's page acts as a device of the user.
const DeskPath = "/v1/console/desk"

// deskHeader is the header with the token of the page's device, in addition to the token of its session.
const deskHeader = "Mailroom-Device"

// desk returns the handler for the page's requests as a device. It serves only sessions of the console.
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
