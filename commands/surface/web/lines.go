package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"mailroom/commands"
	"mailroom/commands/surface/listener"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/tracing"
)

// Paths at which other machines join and leave.
const (
	joinPath  = "/v1/join"
	leavePath = "/v1/leave"
)

// run runs a command line for the caller of the token.
func (w *Server) run(rw http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor < 2 {
		listener.WriteFailure(rw, http.StatusHTTPVersionNotSupported, orchestrator.Errorf(orchestrator.InvalidParams,
			"command lines from another machine require HTTP/2, but a proxy between the machines uses an older version"))
		return
	}
	w.lines.ServeRun(rw, r, func(ctx context.Context, s *remote.Session) int {
		return w.options.Run(ctx, s, CallerOf(r.Context()))
	}, func() error { return StillValid(context.WithoutCancel(r.Context())) })
}

// joined is the answer to an accepted invitation.
type joined struct {
	Agent   string `json:"agent"`
	Token   string `json:"token"`
	Project string `json:"project"` // short name of the database for people
	Version string `json:"version"`
}

// join exchanges an invitation for a token. The rate of failed attempts is limited for all clients together.
func (w *Server) join(rw http.ResponseWriter, r *http.Request) {
	if !listener.ReadAll(rw, r, smallBody) {
		return
	}
	var given struct {
		Agent string `json:"agent"`
		Code  string `json:"code"`
	}
	in := json.NewDecoder(r.Body)
	in.DisallowUnknownFields()
	err := in.Decode(&given)
	if err != nil || given.Code == "" {
		err = orchestrator.Errorf(orchestrator.InvalidParams, "the body must be an object with `agent` and `code`").
			WithHint("To join, run `mailroom join`")
	}
	var answer joined
	if err == nil {
		err = w.traced(r, "join", given.Agent, w.refused.Allow, func(ctx context.Context) (err error) {
			answer.Token, _, err = agents.AcceptInvitation(ctx, w.env.Ledger, given.Agent, given.Code)
			return err
		})
	}
	if err != nil && orchestrator.CodeOf(err) == orchestrator.Unauthenticated && !w.joins.Allow() {
		listener.TooMany(rw, "too many attempts to join")
		return
	}
	if err != nil {
		listener.WriteFailure(rw, commands.HTTPStatus(err), err)
		return
	}
	answer.Agent, answer.Project, answer.Version = given.Agent, commands.ProjectName(w.env.Engine.Path()), w.options.Version
	body, err := orchestrator.JSON(answer)
	if err != nil {
		listener.WriteFailure(rw, commands.HTTPStatus(err), err)
		return
	}
	listener.WriteJSON(rw, http.StatusOK, bytes.TrimSpace(body))
}

// leave revokes the token of the request.
func (w *Server) leave(rw http.ResponseWriter, r *http.Request) {
	a := askerOf(r.Context())
	err := w.traced(r, "leave", a.token.Agent, nil, func(ctx context.Context) error {
		return agents.EndToken(ctx, w.env.Ledger, a.secret)
	})
	if err != nil {
		listener.WriteFailure(rw, commands.HTTPStatus(err), err)
		return
	}
	listener.WriteJSON(rw, http.StatusOK, []byte("{}"))
}

// traced runs do within a span of an agent. A failure leaves a span only if keep permits it, since strangers could
// fill the disk with such spans. A nil keep permits none.
func (w *Server) traced(r *http.Request, name, agent string, keep func() bool, do func(context.Context) error) error {
	ctx, span := tracing.Start(r.Context(), name)
	span.Kind, span.Caller = tracing.Server, orchestrator.Operator
	if agent, err := orchestrator.CheckName("agent", agent); err == nil {
		span.Caller = agent
	}
	span.Set(tracing.AttrSystem, "mailroom")
	span.Set(tracing.AttrOperation, name)
	span.Begin(w.env.Ledger.Now())
	err := do(ctx)
	if err == nil || keep != nil && keep() {
		w.env.Ledger.EndSpan(ctx, span, err, func() bool { return false })
	}
	return err
}
