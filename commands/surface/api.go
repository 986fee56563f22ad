package surface

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"mailroom/commands"
	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
	"mailroom/tracing"
)

// commandsPath is where commands are run over HTTP.
const commandsPath = "/v1/commands/"

// routeCommands serves POST /v1/commands/NAME for every command, and their description.
func (w *web) routeCommands(mux *http.ServeMux, version string) {
	handle(mux, "POST", commandsPath+"{name}", w.authenticated(w.command))
	handle(mux, "GET", "/v1/openapi.json", w.authenticated(func(rw http.ResponseWriter, _ *http.Request) {
		body, err := OpenAPI(w.env.Catalogue, version)
		if err != nil {
			listener.WriteFailure(rw, http.StatusInternalServerError, err)
			return
		}
		listener.WriteJSON(rw, http.StatusOK, body)
	}))
}

// command runs one command for the token that asks. The answer is the command line's, with a status in place of its exit
// status.
func (w *web) command(rw http.ResponseWriter, r *http.Request) {
	d, err := w.env.Catalogue.Lookup(r.PathValue("name"))
	if err == nil {
		err = remote(d)
	}
	if err != nil {
		w.refuse(rw, r, err)
		return
	}
	body, err := io.ReadAll(r.Body)
	if kind, _, merr := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || (len(body) > 0 && (merr != nil || kind != "application/json")) {
		listener.WriteFailure(rw, http.StatusUnsupportedMediaType, orchestrator.Errorf(orchestrator.InvalidParams, "the body is no application/json").
			WithHint("POST the parameters as a JSON object, with Content-Type: application/json"))
		return
	}
	env := w.env
	env.Caller = callerOf(r.Context())
	ctx := tracing.WithParent(r.Context(), r.Header.Get("Traceparent"))
	answer, err := d.Run(ctx, env, body)
	if err != nil {
		w.refuse(rw, r, err)
		return
	}
	if err := w.mayHave(ctx, answer); err != nil {
		takeBack(ctx, env, answer)
		listener.WriteFailure(rw, commands.HTTPStatus(err), err)
		return
	}
	out, err := orchestrator.JSON(answer)
	if err == nil && (ctx.Err() != nil || hungUp(ctx)) {
		err = errGone
	}
	if err == nil {
		err = listener.WriteJSON(rw, http.StatusOK, out)
	}
	if err != nil {
		takeBack(ctx, env, answer)
	}
}

// refuse answers with the error of a command.
func (w *web) refuse(rw http.ResponseWriter, r *http.Request, err error) {
	err = offerTo(w.env.Catalogue, callerOf(r.Context()).Admin).withoutShell(err)
	listener.WriteFailure(rw, commands.HTTPStatus(err), err)
}

// mayHave refuses an answer with messages to whoever asked with a token that is not valid any more: they may have waited
// for long.
func (w *web) mayHave(ctx context.Context, answer commands.Answer) error {
	if _, ok := answer.Result.(commands.Unwritten); !ok {
		return nil
	}
	return w.stillValid(ctx)
}

// errGone: whoever asked is not there any more.
var errGone = errors.New("whoever asked has gone")

// takeBack undoes what an answer marked that did not reach whoever asked.
func takeBack(ctx context.Context, env commands.Env, answer commands.Answer) {
	back, ok := answer.Result.(commands.Unwritten)
	if !ok {
		return
	}
	if err := back.Unwritten(context.WithoutCancel(ctx), env); err != nil {
		env.Log.Error("an answer that was not taken could not be undone", "command", answer.Action, "error", err)
	}
}

// remote refuses what can only be done where the files are.
func remote(d *commands.Definition) error {
	if !d.Remote() {
		return orchestrator.Errorf(orchestrator.PermissionDenied, "%s runs only on the command line of the daemon's machine", d.Name)
	}
	return nil
}

// OpenAPI describes the commands as they are served over HTTP, in version 3.1 of the OpenAPI Specification.
func OpenAPI(catalogue *commands.Catalogue, version string) ([]byte, error) {
	paths := map[string]any{}
	var errs []error
	for _, d := range catalogue.All() {
		if !d.Remote() {
			continue
		}
		card, err := d.Card()
		output, oerr := d.ResultSchema()
		if errs = append(errs, err, oerr); errors.Join(err, oerr) != nil {
			continue
		}
		paths[commandsPath+d.Name] = map[string]any{"post": map[string]any{
			"operationId": strings.ReplaceAll(d.Name, "-", "_"), "summary": d.Summary(), "description": d.Help(), "tags": []string{d.Vocabulary().Name},
			"x-mailroom-rights": card.Rights,
			"requestBody":       map[string]any{"content": jsonContent(d.Schema())},
			"parameters": []any{map[string]any{
				"name": "session", "in": "query", "description": "session that teams and threads belong to; default", "schema": map[string]any{"type": "string"},
			}},
			"responses": map[string]any{
				"200":     map[string]any{"description": "done", "content": jsonContent(output)},
				"default": map[string]any{"description": "refused or failed", "content": jsonContent(map[string]any{"$ref": "#/components/schemas/Failure"})},
			},
		}}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return orchestrator.JSON(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "Mailroom", "version": version, "description": "Messages between agents, around one SQLite table.",
			"license": map[string]any{"name": "MIT", "identifier": "MIT"},
		},
		"servers":  []any{map[string]any{"url": "/"}},
		"security": []any{map[string]any{"token": []string{}}},
		"paths":    paths,
		"components": map[string]any{
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer", "description": "mailroom agent token NAME"}},
			"schemas": map[string]any{"Failure": map[string]any{
				"type": "object", "required": []string{"success", "error", "message"},
				"properties": map[string]any{
					"success": map[string]any{"const": false}, "error": map[string]any{"type": "string", "description": "code"},
					"message": map[string]any{"type": "string"}, "hint": map[string]any{"type": "string", "description": "what to do next"},
				},
			}},
		},
	})
}

func jsonContent(schema any) map[string]any {
	return map[string]any{"application/json": map[string]any{"schema": schema}}
}
