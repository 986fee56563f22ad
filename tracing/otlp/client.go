package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Client sends spans to one receiver. It is safe for concurrent use.
type Client struct {
	o    Options
	http http.Client
	head []byte // start of every body, up to the scopes
}

// NewClient returns a client for options whose URL is not "". resource describes the sender; attributes in the
// options take precedence.
func NewClient(o Options, resource ...Attribute) (*Client, error) {
	for _, own := range resource {
		if !slices.ContainsFunc(o.Resource, func(a Attribute) bool { return a.Key == own.Key }) {
			o.Resource = append(o.Resource[:len(o.Resource):len(o.Resource)], own)
		}
	}
	attributes, err := json.Marshal(o.Resource)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 1
	return &Client{
		o:    o,
		head: fmt.Appendf(nil, `{"resourceSpans":[{"resource":{"attributes":%s},"scopeSpans":[`, attributes),
		http: http.Client{
			Transport: transport, // with the proxies of the environment
			// A redirect could send the headers, which may contain a key, to any server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Spans are spans from one scope.
type Spans struct {
	Scope Scope
	List  []json.RawMessage // each a Span
}

// Rejected reports how many spans of an accepted request the receiver rejected. They must not be sent again.
type Rejected struct {
	Spans   int64
	Message string // from the receiver; may be set even if it accepted all spans
}

// Send sends spans in one request. An error is a *Refused, or a *Later if the spans are to be sent again.
func (c *Client) Send(ctx context.Context, spans ...Spans) (Rejected, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.URL, bytes.NewReader(c.body(spans)))
	if err != nil {
		return Rejected{}, &Later{Err: withoutURL(err)}
	}
	r.Header.Set("User-Agent", "mailroom")
	for name, value := range c.o.Headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/json")
	if c.o.Gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return Rejected{}, &Later{Err: withoutURL(err)}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode/100 == 2 {
		if bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")) {
			return Rejected{}, &Later{Err: errors.New("the server answered with a web page, so it is not a trace receiver; check the address")}
		}
		return rejected(text), nil // the spans were accepted, even if the response is cut short
	}
	if err != nil {
		text = nil
	}
	return Rejected{}, failure(answer, said(text))
}

// maxAnswer is the most bytes that are read of a response.
const maxAnswer = 64 << 10

// body returns the body of a request. None of its writes can fail: it writes to memory, and a Scope is two strings.
func (c *Client) body(spans []Spans) []byte {
	var b bytes.Buffer
	var w io.Writer = &b
	var zip *gzip.Writer
	if c.o.Gzip {
		zip = gzip.NewWriter(&b)
		w = zip
	}
	w.Write(c.head)
	comma := ""
	for _, s := range spans {
		if len(s.List) == 0 {
			continue
		}
		scope, _ := json.Marshal(s.Scope)
		fmt.Fprintf(w, `%s{"scope":%s,"spans":[`, comma, scope)
		for i, span := range s.List {
			if i > 0 {
				w.Write([]byte{','})
			}
			w.Write(span)
		}
		io.WriteString(w, "]}")
		comma = ","
	}
	io.WriteString(w, "]}]}")
	if zip != nil {
		zip.Close()
	}
	return b.Bytes()
}

// withoutURL removes the URL, which may contain a key, from an error.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// rejected reads the response to an accepted request.
func rejected(text []byte) (r Rejected) {
	var answer struct {
		PartialSuccess struct {
			RejectedSpans any    `json:"rejectedSpans"` // a string in the JSON encoding, a number with some receivers
			ErrorMessage  string `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(text, &answer) != nil {
		return r
	}
	switch n := answer.PartialSuccess.RejectedSpans.(type) {
	case string:
		r.Spans, _ = strconv.ParseInt(n, 10, 64)
	case float64:
		r.Spans = int64(n)
	}
	r.Spans, r.Message = max(0, r.Spans), Clip(answer.PartialSuccess.ErrorMessage, 200)
	return r
}

// said returns the error text in a response: the message of a google.rpc.Status, or the start of any other text.
func said(text []byte) string {
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &status) == nil && status.Message != "" {
		return Clip(status.Message, 200)
	}
	return Clip(strings.ToValidUTF8(strings.TrimSpace(string(text)), ""), 200)
}

// Refused is the error if the receiver will never accept the spans of a request, however often they are sent.
type Refused struct {
	Status  int
	Message string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("the receiver answered %d: %s", e.Status, e.Message)
}

// Later is the error if the spans of a request should be sent again: there was no response, the receiver is busy, or
// the address or the headers are wrong.
type Later struct {
	Err   error
	After time.Duration // wait at least this long; 0: the receiver set no time
}

func (e *Later) Error() string { return e.Err.Error() }
func (e *Later) Unwrap() error { return e.Err }

// elsewhere are statuses for a wrong address or key. Spans are kept after them, because an operator can fix the
// cause.
var elsewhere = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
	http.StatusNotAcceptable, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusUnsupportedMediaType}

// soon are statuses after which a request is sent again: those for which the specification requires it, and 500,
// which proxies and receivers return while a server behind them is down.
var soon = []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout}

func failure(answer *http.Response, message string) error {
	status := answer.StatusCode
	switch {
	case slices.Contains(soon, status):
		return &Later{Err: fmt.Errorf("the receiver answered %d: %s", status, message),
			After: retryAfter(answer.Header.Get("Retry-After"), time.Now())}
	case status/100 == 3 || slices.Contains(elsewhere, status):
		return &Later{Err: fmt.Errorf("the receiver answered %d: %s; check the address and the headers", status, message)}
	}
	return &Refused{Status: status, Message: message}
}

// longestAfter is the longest wait that a receiver can request.
const longestAfter = time.Hour

// retryAfter parses a Retry-After header: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(min(max(0, seconds), int64(longestAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), longestAfter)
	}
	return 0
}
