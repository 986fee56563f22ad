package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/orchestrator"
)

// Versions of the protocol. Up to 2025-11-25, a client begins with `initialize`. From modernVersion on, each request
// is independent and names its version.
const (
	modernVersion  = "2026-07-28"
	batchesVersion = "2025-03-26" // requires batches, which are not supported, so it is never agreed to
	beforeBatches  = "2024-11-05"
)

// versions lists the supported versions, newest first.
var versions = slices.DeleteFunc(sdk.SupportedProtocolVersions(), func(v string) bool { return v == batchesVersion })

// received is one message of a client.
type received struct {
	id      json.RawMessage // for the answer; null if there is no usable ID
	message jsonrpc.Message // nil if the message is refused
	version string          // version in its _meta; "" if none
	refused *jsonrpc.Error  // reason for the refusal; nil if the message is accepted
}

// request returns the message if it is a request or a notification, and nil otherwise.
func (r received) request() *jsonrpc.Request {
	request, _ := r.message.(*jsonrpc.Request)
	return request
}

// judge parses and validates a message. It does not check whether the version is supported: see unspoken.
func judge(text []byte) received {
	var find idFinder
	find.read(text)
	r := received{id: find.found()}
	refuse := func(code int64, why string) received {
		return received{id: r.id, refused: &jsonrpc.Error{Code: code, Message: why}}
	}
	if !json.Valid(text) {
		return refuse(jsonrpc.CodeParseError, "the message must be valid JSON")
	}
	if !find.usable() {
		return refuse(jsonrpc.CodeInvalidRequest, "the id must be a string or a whole number below 2^53")
	}
	var err error
	if r.message, err = jsonrpc.DecodeMessage(text); err != nil {
		return refuse(jsonrpc.CodeInvalidRequest,
			"batches are not supported; send each JSON-RPC message separately")
	}
	switch m := r.message.(type) {
	case *jsonrpc.Request:
		var ok bool
		if r.version, ok = namedVersion(m); !ok {
			return refuse(jsonrpc.CodeInvalidParams, "_meta: "+sdk.MetaKeyProtocolVersion+" must be a protocol version")
		}
	case *jsonrpc.Response:
		if m.Result == nil && m.Error == nil { // the SDK would treat it as a response and ignore it
			return refuse(jsonrpc.CodeInvalidRequest, "the message has no method")
		}
	}
	return r
}

// namedVersion returns the protocol version in the _meta of a request, or "" if there is none. ok reports whether the
// value is valid.
func namedVersion(request *jsonrpc.Request) (version string, ok bool) {
	var params, meta map[string]json.RawMessage // a map, since struct fields match keys of any case
	if !request.IsCall() || json.Unmarshal(request.Params, &params) != nil ||
		json.Unmarshal(params["_meta"], &meta) != nil {
		return "", true
	}
	named, some := meta[sdk.MetaKeyProtocolVersion]
	if !some {
		return "", true
	}
	return version, json.Unmarshal(named, &version) == nil && version != ""
}

// unspoken returns the error for a request of an unsupported version, or nil if the version is supported. The SDK
// treats such a request as one of an old version. Source: Model Context Protocol 2026-07-28, "Protocol Version
// Negotiation".
func unspoken(version string) *jsonrpc.Error {
	if version == "" || slices.Contains(versions, version) {
		return nil
	}
	data, err := orchestrator.JSON(sdk.UnsupportedProtocolVersionData{Supported: versions, Requested: version})
	if err != nil {
		panic(err) // cannot happen: the data is all strings
	}
	return &jsonrpc.Error{Code: sdk.CodeUnsupportedProtocolVersion,
		Message: "unsupported protocol version", Data: data}
}

// rpcError returns the JSON-RPC error response to a message that was refused. Source: JSON-RPC 2.0, part 5.1.
func rpcError(id json.RawMessage, e *jsonrpc.Error) []byte {
	text, err := orchestrator.JSON(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *jsonrpc.Error  `json:"error"`
	}{"2.0", id, e})
	if err != nil {
		panic(fmt.Sprintf("an error for the id %s: %v", id, err)) // idFinder returns only valid JSON
	}
	return append(text, '\n')
}

// maxID is the maximum length of an ID that idFinder keeps, in bytes.
const maxID = 1 << 10

// idFinder finds the ID of a message in its text. The text may be too long for memory and may end in invalid JSON. If
// there are several IDs, the last one counts, as in decoders. The zero value is ready to use.
type idFinder struct {
	depth   int    // nesting depth of objects and lists
	over    bool   // the message has ended, or is not an object
	text    bool   // inside a string
	escaped bool   // inside a string, after a backslash
	token   []byte // key or value being read, at the depth of the message's members
	ofID    bool   // token is the value of the ID
	id      []byte // nil if none was found yet
}

// read processes the next piece of the message.
func (f *idFinder) read(piece []byte) {
	for _, c := range piece {
		if f.over {
			return
		}
		if f.text {
			f.keep(c)
			f.text, f.escaped = f.escaped || c != '"', !f.escaped && c == '\\'
			continue
		}
		switch c {
		case ' ', '\t', '\r', '\n', 0xef, 0xbb, 0xbf: // the last three are a byte order mark
		case '{', '[':
			f.over = f.depth == 0 && c == '['
			f.keep(c) // an object or a list is not a valid ID
			f.depth++
		case '}', ']':
			if f.depth == 1 {
				f.value()
				f.over = true
			}
			f.depth--
		case ',':
			if f.depth == 1 {
				f.value()
			}
		case ':':
			if f.depth == 1 {
				var key string
				f.ofID = json.Unmarshal(f.token, &key) == nil && key == "id"
				f.token = nil
			}
		default:
			f.over = f.depth == 0
			f.text = c == '"'
			f.keep(c)
		}
	}
}

// keep appends a character to the token.
func (f *idFinder) keep(c byte) {
	if f.depth == 1 && len(f.token) <= maxID {
		f.token = append(f.token, c)
	}
}

// value ends the value of a member.
func (f *idFinder) value() {
	if f.ofID {
		f.id = f.token
	}
	f.ofID, f.token = false, nil
}

// found returns the ID, a number or a string, or null if there is none.
func (f *idFinder) found() json.RawMessage {
	if len(f.id) > 0 && len(f.id) <= maxID && bytes.IndexByte([]byte(`"-0123456789`), f.id[0]) >= 0 &&
		json.Valid(f.id) {
		return f.id
	}
	return json.RawMessage("null")
}

// usable reports whether the message has no ID or a valid one. The SDK converts every number to a whole number.
func (f *idFinder) usable() bool {
	if f.id == nil {
		return true
	}
	n, err := strconv.ParseFloat(string(f.id), 64)
	return f.id[0] == '"' || err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53
}
