package mcp

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands/surface"
	"mailroom/orchestrator"
)

// withCodes is a middleware that gives every error a JSON-RPC code, for which the SDK would use 0. It also refuses to
// list prompts, because the server has declared none.
func withCodes(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		if prompts, ok := result.(*sdk.ListPromptsResult); ok && err == nil && len(prompts.Prompts) == 0 {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this server has no prompts"}
		}
		return result, withCode(err, jsonrpc.CodeInternalError)
	}
}

// withCode returns an error with a JSON-RPC code: the code of err if it has one, invalid params if the caller made a
// mistake, or else the code otherwise. It returns nil if err is nil.
func withCode(err error, otherwise int64) error {
	var coded *jsonrpc.Error
	if err == nil || errors.As(err, &coded) && coded.Code != 0 {
		return err
	}
	switch orchestrator.CodeOf(err) {
	case orchestrator.InvalidParams, orchestrator.PermissionDenied, orchestrator.NotFound,
		orchestrator.UnknownRecipient, orchestrator.UnknownSender:
		otherwise = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: otherwise, Message: err.Error()}
}

// withNames returns a middleware that, if a client calls a tool by the name in its document, returns an error with
// the name of the tool on this server.
func withNames(offer surface.Offer) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			result, err := next(ctx, method, req)
			call, ok := req.(*sdk.CallToolRequest)
			if err == nil || !ok {
				return result, err
			}
			known, here := false, ""
			for _, tool := range offer.Tools {
				known = known || tool.Name == call.Params.Name
				if tool.Command.Tool == call.Params.Name {
					here = tool.Name
				}
			}
			if known || here == "" {
				return result, err
			}
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
				Message: fmt.Sprintf("unknown tool %q; on this server, the tool is named %s", call.Params.Name, here)}
		}
	}
}
