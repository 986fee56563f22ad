package web

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"mailroom/commands"
	"mailroom/commands/surface"
	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
	"mailroom/tracing"
)

// commandsPath is the prefix of the paths that run commands.
const commandsPath = "/v1/commands/"

// description answers with the OpenAPI description of the commands.
func (w *Server) description(rw http.ResponseWriter, _ *http.Request) {
	body, err := OpenAPI(w.env.Catalogue, w.options.Version)
	if err != nil {
		listener.WriteFailure(rw, http.StatusInternalServerError, err)
		return
	}
	listener.WriteJSON(rw, http.StatusOK, body)
}

// command runs one command for the caller of the token. The answer is the same as on the command line, with an HTTP
// status in place of the exit status.
func (w *Server) command(rw http.ResponseWriter, r *http.Request) {
	d, err := w.env.Catalogue.Lookup(r.PathValue("name"))
	if err == nil && d.HereOnly { // needs the files on the daemon's machine
		err = orchestrator.Errorf(orchestrator.PermissionDenied,
			"%s runs only on the command line of the daemon's machine", d.Name)
	}
	if err != nil {
		w.refuse(rw, r, err)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.refuse(rw, r, err)
		return
	}
	env := w.env
	env.Caller = CallerOf(r.Context())
	ctx := tracing.WithParent(r.Context(), r.Header.Get("Traceparent"))
	answer, err := d.Run(ctx, env, body)
	if err != nil {
		w.refuse(rw, r, err)
		return
	}
	if _, hands := answer.Result.(commands.Handed); hands {
		if err := StillValid(ctx); err != nil {
			commands.Settle(ctx, env, answer, false)
			listener.WriteFailure(rw, commands.HTTPStatus(err), err)
			return
		}
	}
	out, err := answer.Pieces()
	if err == nil {
		err = Gone(ctx)
	}
	if err == nil {
		err = listener.WriteJSON(rw, http.StatusOK, out...)
	}
	commands.Settle(ctx, env, answer, err == nil)
}

// refuse answers with the error of a command.
func (w *Server) refuse(rw http.ResponseWriter, r *http.Request, err error) {
	err = surface.NewOffer(w.env.Catalogue, CallerOf(r.Context())).WithoutShell(err)
	listener.WriteFailure(rw, commands.HTTPStatus(err), err)
}

// OpenAPI returns a description of the commands that HTTP serves, in version 3.1 of the OpenAPI Specification.
func OpenAPI(catalogue *commands.Catalogue, version string) ([]byte, error) {
	paths := map[string]any{}
	var errs []error
	for _, d := range catalogue.All() {
		if d.HereOnly {
			continue
		}
		output, err := d.ResultSchema()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		paths[commandsPath+d.Name] = map[string]any{"post": map[string]any{
			"operationId": strings.ReplaceAll(d.Name, "-", "_"), "summary": d.Summary(), "description": d.Help(),
			"tags":              []string{d.Vocabulary().Name},
			"x-mailroom-rights": d.Card().Rights,
			"requestBody":       map[string]any{"content": jsonContent(d.Schema())},
			"parameters": []any{map[string]any{
				"name": "session", "in": "query", "description": "name of the session that teams and threads belong to (default: default)",
				"schema": map[string]any{"type": "string"},
			}},
			"responses": map[string]any{
				"200": map[string]any{"description": "done", "content": jsonContent(output)},
				"default": map[string]any{"description": "refused or failed",
					"content": jsonContent(map[string]any{"$ref": "#/components/schemas/Failure"})},
			},
		}}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return orchestrator.JSON(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "Mailroom", "version": version, "description": "Messages between agents, stored in one SQL table.",
			"license": map[string]any{"name": "MIT", "identifier": "MIT"},
		},
		"servers":  []any{map[string]any{"url": "/"}},
		"security": []any{map[string]any{"token": []string{}}},
		"paths":    paths,
		"components": map[string]any{
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer",
				"description": "token that `mailroom agent token NAME` issues"}},
			"schemas": map[string]any{"Failure": map[string]any{
				"type": "object", "required": []string{"success", "error", "message"},
				"properties": map[string]any{
					"success": map[string]any{"const": false},
					"error":   map[string]any{"type": "string", "description": "error code"},
					"message": map[string]any{"type": "string"},
					"hint":    map[string]any{"type": "string", "description": "what to do next"},
				},
			}},
		},
	})
}

func jsonContent(schema any) map[string]any {
	return map[string]any{"application/json": map[string]any{"schema": schema}}
}
