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

// SessionPath is the path at which the console's page logs in, reads its identity, and logs out. Without the console,
// a daemon serves nothing there.
const SessionPath = "/v1/console/session"

// login is the answer to a code: the new token and the identity of the session.
type login struct {
	Token string `json:"token"`
	identity
}

// identity describes the caller and the daemon.
type identity struct {
	Agent     string `json:"agent"`
	TokenID   string `json:"token_id"` // ID for listing and revoking the token
	Admin     bool   `json:"admin"`
	ExpiresAt string `json:"expires_at"` // "": the token is valid until it is revoked
	Database  string `json:"database"`   // location on the daemon's machine; "" for an agent
	Named     bool   `json:"named"`      // commands in any folder find the database only if --db names it
	Project   string `json:"project"`    // short name of the database for people
	Version   string `json:"version"`
	Host      string `json:"host"`
	// KeepsAddress reports that the page will have the same address after a restart, so that data that a browser has
	// stored for the page remains available.
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

// logIn exchanges a code for a session of the console. The rate of attempts is limited for all clients together,
// since the clients are not yet authenticated.
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

// whoAsks answers with the identity of the session.
func (w *Server) whoAsks(rw http.ResponseWriter, r *http.Request) {
	w.reply(rw, w.identityOf(askerOf(r.Context()).token), nil)
}

// logOut revokes the session of the request.
func (w *Server) logOut(rw http.ResponseWriter, r *http.Request) {
	err := w.traced(r, "console logout", orchestrator.Operator, nil, func(ctx context.Context) error {
		return agents.EndSession(ctx, w.env.Ledger, askerOf(r.Context()).secret)
	})
	w.reply(rw, struct{}{}, err)
}

// reply answers with a result in the form of a command's answer, or with an error.
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
