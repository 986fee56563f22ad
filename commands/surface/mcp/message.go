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

// Versions of the protocol. Until 2025-11-25 a client begins with `initialize`; since modernVersion each request stands
// alone and names its version.
const (
	modernVersion  = "2026-07-28"
	batchesVersion = "2025-03-26" // demands batches, which are not taken: it is not agreed to
	beforeBatches  = "2024-11-05"
)

// versions are those that are spoken here, newest first.
var versions = slices.DeleteFunc(sdk.SupportedProtocolVersions(), func(v string) bool { return v == batchesVersion })

// received is one message of a client.
type received struct {
	id      json.RawMessage // for the answer to it; null where it has none that can be used
	message jsonrpc.Message // nil if it is refused
	version string          // which its _meta names; "" is none
	refused *jsonrpc.Error  // why it cannot be accepted; nil if it can
}

// request returns the message if it is a request or a notification, and otherwise nil.
func (r received) request() *jsonrpc.Request {
	request, _ := r.message.(*jsonrpc.Request)
	return request
}

// judge reads a message. Whether its version is spoken here is another question: see unspoken.
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
		if m.Result == nil && m.Error == nil { // the SDK takes it for an answer, and says nothing
			return refuse(jsonrpc.CodeInvalidRequest, "the message has no method")
		}
	}
	return r
}

// namedVersion returns the version of the protocol that the _meta of a request names; "" is none. ok is false if what
// stands there cannot be a version.
func namedVersion(request *jsonrpc.Request) (version string, ok bool) {
	var params, meta map[string]json.RawMessage // the names of a struct's fields would match in any case
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

// unspoken returns the error for a request of a version that is not spoken here, and nil for another. The SDK takes
// such a request for one of an old version. Source: Model Context Protocol 2026-07-28, "Protocol Version Negotiation".
func unspoken(version string) *jsonrpc.Error {
	if version == "" || slices.Contains(versions, version) {
		return nil
	}
	data, err := orchestrator.JSON(sdk.UnsupportedProtocolVersionData{Supported: versions, Requested: version})
	if err != nil {
		panic(err) // it is made of texts
	}
	return &jsonrpc.Error{Code: sdk.CodeUnsupportedProtocolVersion,
		Message: "unsupported protocol version", Data: data}
}

// rpcError is an answer of JSON-RPC to a message that was not accepted. Source: JSON-RPC 2.0, part 5.1.
func rpcError(id json.RawMessage, e *jsonrpc.Error) []byte {
	text, err := orchestrator.JSON(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *jsonrpc.Error  `json:"error"`
	}{"2.0", id, e})
	if err != nil {
		panic(fmt.Sprintf("an error for the id %s: %v", id, err)) // idFinder finds nothing but JSON
	}
	return append(text, '\n')
}

// maxID bounds the id that idFinder keeps, in bytes.
const maxID = 1 << 10

// idFinder finds the id of a message in its text, which need not be JSON to its end, nor fit into memory. Of several it
// takes the last, as decoders do. The zero value is ready to read.
type idFinder struct {
	depth   int    // of objects and lists
	over    bool   // the message has ended, or is no object
	text    bool   // within a string
	escaped bool   // within a string, behind a backslash
	token   []byte // at the depth of the message's own members: the key or value that is being read
	ofID    bool   // token is the value of the id
	id      []byte // nil: none yet
}

// read reads on in the message.
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
		case ' ', '\t', '\r', '\n', 0xef, 0xbb, 0xbf: // the last are those of a byte order mark
		case '{', '[':
			f.over = f.depth == 0 && c == '['
			f.keep(c) // as a value it is no id
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

// keep adds a character to the token.
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

// found returns the id: a number or a text, and null where there is none.
func (f *idFinder) found() json.RawMessage {
	if len(f.id) > 0 && len(f.id) <= maxID && bytes.IndexByte([]byte(`"-0123456789`), f.id[0]) >= 0 &&
		json.Valid(f.id) {
		return f.id
	}
	return json.RawMessage("null")
}

// usable reports whether the message has no id, or one that can be answered: the SDK makes whole numbers of all.
func (f *idFinder) usable() bool {
	if f.id == nil {
		return true
	}
	n, err := strconv.ParseFloat(string(f.id), 64)
	return f.id[0] == '"' || err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53
}
