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

// withCodes is a middleware that gives every error its code, where the SDK would say 0, and does not answer for what
// the server does not have: a list of no prompts from one that has declared none.
func withCodes(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		if prompts, ok := result.(*sdk.ListPromptsResult); ok && err == nil && len(prompts.Prompts) == 0 {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this server has no prompts"}
		}
		return result, withCode(err, jsonrpc.CodeInternalError)
	}
}

// withCode returns an error that has a code of JSON-RPC: its own, that of the fault of whoever asked, or otherwise the
// code given. nil stays nil.
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

// withNames returns a middleware that tells a client that calls a tool by its document's name what its name is here.
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
