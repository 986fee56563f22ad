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
	head []byte // of every body, up to the scopes
}

// NewClient returns a client for options whose URL is not "". resource describes what sends; the options may say
// otherwise.
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
			// A redirect could lead the headers, which may hold a key, anywhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Spans are spans that one scope has made.
type Spans struct {
	Scope Scope
	List  []json.RawMessage // each of a Span
}

// Rejected says that the receiver took a request, but not all spans of it, which are not to be sent again.
type Rejected struct {
	Spans   int64
	Message string // of the receiver, also when it took all
}

// Send sends spans in one request. An error is a *Refused, or a *Later after which they are to be sent again.
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
		return rejected(text), nil // what it has taken it has taken, even if its answer is cut short
	}
	if err != nil {
		text = nil
	}
	return Rejected{}, failure(answer, said(text))
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 10

// body returns the body of a request. Nothing in it can fail: it writes to memory, and a Scope is two texts.
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

// withoutURL leaves the URL, in which a key may stand, out of an error.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// rejected reads the answer to a request that was taken.
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

// said is what a receiver says of a failure: the message of a google.rpc.Status, or the beginning of anything else.
func said(text []byte) string {
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &status) == nil && status.Message != "" {
		return Clip(status.Message, 200)
	}
	return Clip(strings.ToValidUTF8(strings.TrimSpace(string(text)), ""), 200)
}

// Refused says that the receiver will not take the spans of a request, however often they are sent.
type Refused struct {
	Status  int
	Message string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("the receiver answered %d: %s", e.Status, e.Message)
}

// Later says that the spans of a request should be sent again: there was no answer, the receiver has no time, or it is
// not the one that it was thought to be.
type Later struct {
	Err   error
	After time.Duration // not before; 0 does not say
}

func (e *Later) Error() string { return e.Err.Error() }
func (e *Later) Unwrap() error { return e.Err }

// elsewhere are statuses that say that the address or the key is wrong. What an operator can put right does not lose
// spans.
var elsewhere = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
	http.StatusNotAcceptable, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusUnsupportedMediaType}

// soon are statuses after which a request is sent again: those of which the specification wants that, and 500, which
// proxies and receivers give while something behind them is down.
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

// longestAfter is the longest wait that a receiver may ask for.
const longestAfter = time.Hour

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(min(max(0, seconds), int64(longestAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), longestAfter)
	}
	return 0
}
