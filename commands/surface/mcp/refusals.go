package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// admit validates the body and the headers of a request. It returns the writer for the answer, and the body if that
// is a request or a notification of the protocol. If admit refuses the request, it writes the error and returns nil.
func admit(rw http.ResponseWriter, r *http.Request, body []byte) (answers http.ResponseWriter, m *jsonrpc.Request) {
	if r.Method != http.MethodPost {
		return rw, nil
	}
	message := judge(body)
	refused := message.refused
	if refused == nil {
		refused = headed(r.Header, message)
	}
	if refused != nil {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusBadRequest)
		rw.Write(rpcError(message.id, refused))
		return nil, nil
	}
	return &spokenRefusals{ResponseWriter: rw, id: message.id}, message.request()
}

const (
	versionHeader = "Mcp-Protocol-Version"
	nameHeader    = "Mcp-Name"
)

// headed validates the headers that repeat data of a message, and decodes the name among them. The SDK compares these
// headers with the message, but it reports an unknown old version as a malformed request, and it compares the encoded
// name. Source: Model Context Protocol 2026-07-28, "Request Metadata".
func headed(header http.Header, message received) *jsonrpc.Error {
	version := header.Get(versionHeader)
	for _, name := range []string{versionHeader, "Mcp-Method", nameHeader} {
		if len(header.Values(name)) > 1 {
			return mismatch("the header %s must occur once, but occurs %d times", name, len(header.Values(name)))
		}
	}
	if version == "" {
		return unspoken(message.version) // the SDK reports the missing header of a supported version
	}
	if e := unspoken(version); e != nil || version < modernVersion {
		return e
	}
	name := header.Get(nameHeader)
	if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' && c != '\t' || c > '~' }) {
		return mismatch("%s has characters that a header must not contain; encode it as =?base64?...?=", nameHeader)
	}
	if encoded, is := strings.CutPrefix(name, "=?base64?"); is {
		if encoded, is = strings.CutSuffix(encoded, "?="); is {
			plain, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return mismatch("%s must be valid Base64", nameHeader)
			}
			header.Set(nameHeader, string(plain))
		}
	}
	return nil
}

// mismatch returns the error for headers that do not match the message.
func mismatch(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: sdk.CodeHeaderMismatch,
		Message: fmt.Sprintf("the headers do not match the message: "+format, args...)}
}

// spokenRefusals is a writer for the answer to one request. If the SDK refuses the request in plain text,
// spokenRefusals writes a JSON-RPC error with the request's ID instead.
type spokenRefusals struct {
	http.ResponseWriter
	id    json.RawMessage
	plain bool // a plain text refusal has begun; Write receives its text
}

// WriteHeader implements http.ResponseWriter.
func (w *spokenRefusals) WriteHeader(status int) {
	if w.plain = status == http.StatusBadRequest &&
		strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain"); w.plain {
		w.Header().Set("Content-Type", "application/json")
		return // Write determines the status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer. The SDK writes the text of a refusal with one call.
func (w *spokenRefusals) Write(p []byte) (int, error) {
	if !w.plain {
		return w.ResponseWriter.Write(p)
	}
	w.plain = false
	status, code := http.StatusBadRequest, int64(jsonrpc.CodeInvalidRequest)
	if bytes.HasPrefix(p, []byte("JSON RPC not handled")) && string(w.id) != "null" {
		// the SDK's error for an unknown method
		status, code = http.StatusOK, jsonrpc.CodeMethodNotFound // the request is well formed: an ordinary answer
	}
	w.ResponseWriter.WriteHeader(status)
	_, err := w.ResponseWriter.Write(rpcError(w.id, &jsonrpc.Error{Code: code, Message: strings.TrimSpace(string(p))}))
	return len(p), err
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *spokenRefusals) Unwrap() http.ResponseWriter { return w.ResponseWriter }
