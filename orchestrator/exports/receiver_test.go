package exports

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// receiver receives traces, and answers as the test specifies.
type receiver struct {
	t      *testing.T
	url    string
	mu     sync.Mutex
	bodies []string
	answer func(body string) (status int, header, text string) // nil: 200
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL + "/v1/traces"
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var in io.Reader = q.Body
	if q.Header.Get("Content-Encoding") == "gzip" {
		zip, err := gzip.NewReader(in)
		if err != nil {
			r.t.Error(err)
			return
		}
		in = zip
	}
	text, err := io.ReadAll(in)
	if err != nil || q.Header.Get("Content-Type") != "application/json" || q.URL.Path != "/v1/traces" {
		r.t.Errorf("%s of type %q: %v", q.URL, q.Header.Get("Content-Type"), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	status, header, answer := 200, "", "{}"
	if r.answer != nil {
		status, header, answer = r.answer(string(text))
	}
	if status == 200 {
		r.bodies = append(r.bodies, string(text))
	}
	if header != "" {
		w.Header().Set("Retry-After", header)
	}
	w.WriteHeader(status)
	io.WriteString(w, answer)
}

// received is a span as it arrived.
type received struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	StartTimeUnixNano, EndTimeUnixNano  string
	Attributes                          []struct {
		Key   string
		Value map[string]any
	}
	Links  []struct{ TraceID, SpanID string }
	Status struct {
		Code    int
		Message string
	}
}

func (s received) at(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			for _, v := range a.Value {
				text, _ := v.(string)
				return text
			}
		}
	}
	return ""
}

// spans returns all spans that arrived, in their order.
func (r *receiver) spans() (list []received) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, body := range r.bodies {
		var q struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []received }
			}
		}
		if err := json.Unmarshal([]byte(body), &q); err != nil {
			r.t.Fatalf("%v: %s", err, body)
		}
		for _, resource := range q.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				list = append(list, scope.Spans...)
			}
		}
	}
	return list
}

// named returns the only span with a name.
func (r *receiver) named(name string) received {
	r.t.Helper()
	list := slices.DeleteFunc(r.spans(), func(s received) bool { return s.Name != name })
	if len(list) != 1 {
		r.t.Fatalf("%d spans are named %s", len(list), name)
	}
	return list[0]
}
