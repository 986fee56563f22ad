package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"mailroom/commands"
	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
)

// SessionPath is where the console's page logs in, asks who it is, and logs out. A daemon without the console has
// nothing there.
const SessionPath = "/v1/console/session"

// login is what the exchange of a code brings: who is logged in, and by which token from now on.
type login struct {
	Token string `json:"token"`
	identity
}

// identity says who asks, and whom.
type identity struct {
	Agent     string `json:"agent"`
	TokenID   string `json:"token_id"` // by which it is listed and revoked
	Admin     bool   `json:"admin"`
	ExpiresAt string `json:"expires_at"` // "": the token is valid until it is revoked
	Database  string `json:"database"`   // where it is, on the daemon's machine; "" for an agent
	Named     bool   `json:"named"`      // commands find the database everywhere only if --db names it
	Project   string `json:"project"`    // a short name of the database for people
	Version   string `json:"version"`
	Host      string `json:"host"`
	// KeepsAddress: the page has the same address at the next start, so that what a browser stores for it is found
	// again.
	KeepsAddress bool `json:"keeps_address"`
}

// identityOf describes the holder of a token.
func (w *Server) identityOf(token agents.Token) identity {
	at := w.env.Engine.Path()
	is := identity{
		Agent: token.Agent, TokenID: token.ID, Admin: token.Admin, ExpiresAt: token.ExpiresAt,
		Project: commands.ProjectName(at), Version: w.options.Version,
		Host: w.env.Ledger.Host(), KeepsAddress: !strings.HasSuffix(w.options.Address, ":0"),
	}
	if token.Admin {
		is.Database, is.Named = at, w.options.Named
	}
	return is
}

// logIn exchanges a code for a session of the console. How often that may be tried is bounded for all together, since
// nobody has shown yet who they are.
func (w *Server) logIn(rw http.ResponseWriter, r *http.Request) {
	if !w.codes.Allow() {
		listener.TooMany(rw, "too many attempts to log in")
		return
	}
	if !listener.ReadAll(rw, r, smallBody) {
		return
	}
	var given struct {
		Code string `json:"code"`
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		read := json.NewDecoder(bytes.NewReader(body))
		read.DisallowUnknownFields()
		if read.Decode(&given) != nil || given.Code == "" {
			err = orchestrator.Errorf(orchestrator.InvalidParams, "the body must be an object with `code`").
				WithHint("To get a code, run `mailroom console`")
		}
	}
	var secret string
	var session agents.Token
	if err == nil {
		err = w.traced(r, "console login", orchestrator.Operator, nil, func(ctx context.Context) (err error) {
			secret, session, err = agents.OpenSession(ctx, w.env.Ledger, given.Code)
			return err
		})
	}
	w.reply(rw, login{secret, w.identityOf(session)}, err)
}

// whoAsks says who is logged in.
func (w *Server) whoAsks(rw http.ResponseWriter, r *http.Request) {
	w.reply(rw, w.identityOf(askerOf(r.Context()).token), nil)
}

// logOut revokes the session that asks.
func (w *Server) logOut(rw http.ResponseWriter, r *http.Request) {
	err := w.traced(r, "console logout", orchestrator.Operator, nil, func(ctx context.Context) error {
		return agents.EndSession(ctx, w.env.Ledger, askerOf(r.Context()).secret)
	})
	w.reply(rw, struct{}{}, err)
}

// reply answers with a result in the form of a command's, or with an error.
func (w *Server) reply(rw http.ResponseWriter, result any, err error) {
	var body []byte
	if err == nil {
		body, err = orchestrator.JSON(commands.Answer{Action: "console", Result: result})
	}
	if err != nil {
		listener.WriteFailure(rw, commands.HTTPStatus(err), err)
		return
	}
	listener.WriteJSON(rw, http.StatusOK, body)
}
