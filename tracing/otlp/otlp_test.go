package otlp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The JSON encoding uses IDs in hex, 64-bit numbers as strings, and enumerations as numbers.
func TestJSON(t *testing.T) {
	s := &Span{
		TraceID: strings.Repeat("ab", 16), SpanID: strings.Repeat("cd", 8), Name: "send", Kind: KindProducer,
		Start: Nanos(time.Unix(1, 5)), Attributes: []Attribute{
			Text("a", "x\xff"), Number("b", 1<<60), Fraction("c", 0.5), Flag("d", true),
		},
		Links: []Link{{TraceID: "1", SpanID: "2"}}, Status: Status{Code: CodeError, Message: "no"},
	}
	text, err := json.Marshal(s)
	want := `{"traceId":"abababababababababababababababab","spanId":"cdcdcdcdcdcdcdcd","name":"send","kind":4,` +
		`"startTimeUnixNano":"1000000005","endTimeUnixNano":"0","attributes":[{"key":"a","value":{"stringValue":"x` +
		"\uFFFD" + `"}},` +
		`{"key":"b","value":{"intValue":"1152921504606846976"}},{"key":"c","value":{"doubleValue":0.5}},{"key":"d","value":{"boolValue":true}}],` +
		`"links":[{"traceId":"1","spanId":"2"}],"status":{"message":"no","code":2}}`
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s\n%s", err, text, want)
	}
}

func TestIDs(t *testing.T) {
	if a, b := SpanID("ab", "c"), SpanID("a", "bc"); a == b || a != SpanID("ab", "c") || !IsSpanID(a) ||
		!IsTraceID(TraceID("")) {
		t.Errorf("%s %s", a, b)
	}
	for _, id := range []string{"", "0000000000000000", "ABCDEF0123456789", "abcdef012345678", "abcdef012345678g"} {
		if IsSpanID(id) {
			t.Errorf("%q is taken for a span id", id)
		}
	}
}

func TestConfigure(t *testing.T) {
	const prefix = "OTEL_EXPORTER_OTLP_"
	for _, c := range []struct {
		flag  string
		env   map[string]string
		url   string
		fails string // a part of the error
	}{
		{"", nil, "", ""},
		{"http://h:4318", nil, "http://h:4318/v1/traces", ""},
		{"https://h/v1/traces", nil, "https://h/v1/traces", ""},
		{"", map[string]string{prefix + "ENDPOINT": "http://h:4318/base/"}, "http://h:4318/base/v1/traces", ""},
		{"", map[string]string{prefix + "TRACES_ENDPOINT": "http://h/as/it/is", prefix + "ENDPOINT": "http://other"},
			"http://h/as/it/is", ""},
		{"http://flag", map[string]string{prefix + "TRACES_ENDPOINT": "http://h/as/it/is"}, "http://flag/v1/traces",
			""},
		{"off", map[string]string{prefix + "ENDPOINT": "http://h"}, "", ""},
		{"", map[string]string{prefix + "ENDPOINT": "http://h", "OTEL_SDK_DISABLED": "true"}, "", ""},
		{"", map[string]string{prefix + "ENDPOINT": "http://h", "OTEL_TRACES_EXPORTER": "none"}, "", ""},
		{"h:4318", nil, "", "--otlp"},
		{"ftp://h", nil, "", "--otlp"},
		{"", map[string]string{prefix + "ENDPOINT": "h"}, "", "ENDPOINT"},
		{"", map[string]string{prefix + "ENDPOINT": "http://h", prefix + "PROTOCOL": "grpc"}, "", "4318"},
		{"", map[string]string{prefix + "ENDPOINT": "http://h", prefix + "TRACES_PROTOCOL": "http/protobuf"},
			"http://h/v1/traces", ""},
		{"http://h", map[string]string{prefix + "PROTOCOL": "grpc"}, "http://h/v1/traces", ""},
		{"http://h", map[string]string{prefix + "TIMEOUT": "10s"}, "", "TIMEOUT"},
		{"http://h", map[string]string{prefix + "HEADERS": "secret"}, "", "HEADERS"},
		{"http://h", map[string]string{prefix + "HEADERS": "a=%0d%0ab"}, "", "HEADERS"},
		{"http://h", map[string]string{prefix + "HEADERS": "a=b%01c"}, "", "HEADERS"},
		{"http://h", map[string]string{prefix + "HEADERS": "Authorization: Bearer s3cr3t=="}, "", "HEADERS"},
		{"http://h", map[string]string{prefix + "COMPRESSION": "zstd"}, "", "COMPRESSION"},
	} {
		o, err := Configure(c.flag, func(name string) string { return c.env[name] })
		if o.URL != c.url || (err == nil) != (c.fails == "") {
			t.Errorf("%q %v: %q %v; want %q", c.flag, c.env, o.URL, err, c.url)
		}
		if err != nil && (!strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q %v: %v", c.flag, c.env, err)
		}
	}
}

func TestConfigureTheRest(t *testing.T) {
	env := map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS": " api-key = a%20b , x=1,", "OTEL_EXPORTER_OTLP_TIMEOUT": "2500",
		"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
		"OTEL_SERVICE_NAME":              "post", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,deployment.environment.name=prod",
	}
	o, err := Configure("https://user:word@h/?key=x", func(name string) string { return env[name] })
	want := Options{
		URL: "https://user:word@h/v1/traces?key=x", Headers: map[string]string{"api-key": "a b", "x": "1"},
		Timeout: 2500 * time.Millisecond, Gzip: true,
		Resource: []Attribute{Text("deployment.environment.name", "prod"), Text("service.name", "post")},
	}
	if err != nil || !reflect.DeepEqual(o, want) || o.Target() != "https://h/v1/traces" {
		t.Errorf("%v %s\n%+v\n%+v", err, o.Target(), o, want)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "7": 7 * time.Second, "99999999999": longestAfter,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 03:00:00 GMT": 0,
		"Fri, 02 Jan 2126 03:00:00 GMT": longestAfter,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q is %s; want %s", text, got, want)
		}
	}
}

// Send sends headers, user and password, follows no redirect, and shows no URL in its errors.
func TestSend(t *testing.T) {
	status, answer := 200, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, word, _ := r.BasicAuth()
		var q map[string]any
		if err := json.Unmarshal(body, &q); err != nil || r.Header.Get("Api-Key") != "k" || user != "me" ||
			word != "secret" {
			t.Errorf("%v %v: %s", err, r.Header, body)
		}
		if r.URL.Path != "/v1/traces" {
			t.Errorf("the redirect to %s was followed", r.URL)
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	o := Options{URL: strings.Replace(server.URL, "//", "//me:secret@", 1) + "/v1/traces",
		Headers: map[string]string{"api-key": "k"}, Timeout: time.Minute}
	c, err := NewClient(o, Text("service.name", "mailroom"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	span, err := json.Marshal(&Span{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	send := func(ctx context.Context) (Rejected, error) {
		return c.Send(ctx, Spans{List: []json.RawMessage{span, span}})
	}
	for _, text := range []string{`{"partialSuccess":{"rejectedSpans":"2","errorMessage":"old"}}`,
		`{"partialSuccess":{"rejectedSpans":2,"errorMessage":"old"}}`} {
		answer = text
		if r, err := send(t.Context()); err != nil || r != (Rejected{2, "old"}) {
			t.Errorf("%+v %v", r, err)
		}
	}
	answer = `{"code":3,"message":"it is wrong"}`
	for code, refused := range map[int]bool{400: true, 413: true, 422: true, 501: true, 500: false, 302: false,
		401: false, 404: false, 429: false, 502: false, 503: false, 504: false} {
		status = code
		_, err := send(t.Context())
		if _, is := errors.AsType[*Refused](err); is != refused || !strings.Contains(err.Error(), "it is wrong") {
			t.Errorf("%d: %#v", code, err)
		}
	}
	server.Close()
	if _, err := send(t.Context()); err == nil || strings.Contains(err.Error(), "secret") ||
		strings.Contains(err.Error(), "me:") {
		t.Errorf("%v", err)
	}
}
