package surface

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/orchestrator"
)

// withCodes is a middleware that gives every error its code, where the SDK would say 0, and does not answer for what the
// server does not have: a list of no prompts from one that has declared none.
func withCodes(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if prompts, ok := result.(*mcp.ListPromptsResult); ok && err == nil && len(prompts.Prompts) == 0 {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "there are no prompts here"}
		}
		return result, withCode(err, jsonrpc.CodeInternalError)
	}
}

// withCode returns an error that has a code of JSON-RPC: its own, that of the fault of whoever asked, or otherwise the code
// given. nil stays nil.
func withCode(err error, otherwise int64) error {
	var coded *jsonrpc.Error
	if err == nil || errors.As(err, &coded) && coded.Code != 0 {
		return err
	}
	switch orchestrator.CodeOf(err) {
	case orchestrator.InvalidParams, orchestrator.PermissionDenied, orchestrator.NotFound, orchestrator.UnknownRecipient, orchestrator.UnknownSender:
		otherwise = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: otherwise, Message: err.Error()}
}
