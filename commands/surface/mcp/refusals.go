package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"mailroom/orchestrator"
)

// rpcError is an answer of JSON-RPC to a request that was not understood. Source: JSON-RPC 2.0, part 5.1.
func rpcError(id json.RawMessage, code int, why string) []byte {
	return orchestrator.Mended(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", id, code, orchestrator.JSONString(why)))
}

// judge returns why a message cannot be accepted, with the code of that error, or "" if it can, and the id that an answer to it
// has: null if the message has none that can be used.
func judge(message []byte) (id json.RawMessage, code int, why string) {
	id = json.RawMessage("null")
	if !json.Valid(message) {
		return id, jsonrpc.CodeParseError, "the message is not JSON"
	}
	var m map[string]json.RawMessage // a struct would take the value of ID, too
	if json.Unmarshal(message, &m) == nil && m["id"] != nil {
		given := m["id"]
		text := given[0] == '"'
		if text || strings.Trim(string(given[:1]), "-0123456789") == "" {
			id = given
		}
		n, err := strconv.ParseFloat(string(given), 64) // the SDK makes whole numbers of all
		if !text && (err != nil || n != math.Trunc(n) || math.Abs(n) >= 1<<53) {
			return id, jsonrpc.CodeInvalidRequest, "the id is no whole number below 2^53, and no text"
		}
	}
	if _, err := jsonrpc.DecodeMessage(message); err != nil {
		return id, jsonrpc.CodeInvalidRequest, "that is no JSON-RPC message; a batch is none either: send each message by itself"
	}
	return id, 0, ""
}

// spokenRefusals is a writer of the answer to one request. Where the SDK refuses the request in plain text, it writes an error of
// JSON-RPC with the request's id instead.
type spokenRefusals struct {
	http.ResponseWriter
	id    json.RawMessage
	plain bool // a refusal in plain text has begun; Write will get its text
}

// answerRefusals refuses a request that is no message of JSON-RPC, and returns nil then. Otherwise it returns the writer for the
// answer.
func answerRefusals(rw http.ResponseWriter, r *http.Request, body []byte) http.ResponseWriter {
	if r.Method != http.MethodPost {
		return rw
	}
	id, code, why := judge(body)
	if why != "" {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusBadRequest)
		rw.Write(rpcError(id, code, why))
		return nil
	}
	if string(id) == "null" {
		return rw
	}
	return &spokenRefusals{ResponseWriter: rw, id: id}
}

// WriteHeader implements http.ResponseWriter.
func (w *spokenRefusals) WriteHeader(status int) {
	if w.plain = status == http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain"); w.plain {
		w.Header().Set("Content-Type", "application/json")
		return // Write knows more
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer. What is wrong is one call of it.
func (w *spokenRefusals) Write(p []byte) (int, error) {
	if !w.plain {
		return w.ResponseWriter.Write(p)
	}
	w.plain = false
	status, code := http.StatusBadRequest, jsonrpc.CodeInvalidRequest
	if bytes.HasPrefix(p, []byte("JSON RPC not handled")) { // the SDK's error for a method that it does not know
		status, code = http.StatusOK, jsonrpc.CodeMethodNotFound // the request is well formed, and this is its answer
	}
	w.ResponseWriter.WriteHeader(status)
	_, err := w.ResponseWriter.Write(rpcError(w.id, code, strings.TrimSpace(string(p))))
	return len(p), err
}

// Unwrap lets a response controller reach what is below.
func (w *spokenRefusals) Unwrap() http.ResponseWriter { return w.ResponseWriter }
