package surface

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// readyWithin bounds how long /readyz waits for the database.
const readyWithin = 2 * time.Second

// hangUpAfter is how long requests under way may take to end when the daemon stops. It needs the rest of its time for
// deliveries.
const hangUpAfter = time.Second

// health serves /healthz, /readyz and /metrics on a loopback address.
type health struct {
	server  *http.Server
	address string // "http://127.0.0.1:40123"
}

// listenHealth binds the address, which must be a loopback one: nothing here asks who is there.
func listenHealth(address string, router *orchestrator.Router, m *metrics, log *slog.Logger) (*health, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "listen", Err: err, Hint: "Write 127.0.0.1:PORT; port 0 picks a free one"}
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "listen: %s is no loopback address", host).
			WithHint("These endpoints ask nobody for a credential: use 127.0.0.1 or [::1], and a proxy in front if others must reach them")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &orchestrator.Error{Code: orchestrator.Unavailable, Message: "listening on " + address, Err: err, Hint: "Choose another port; 0 picks a free one"}
	}
	readiness := &glance[struct{}]{
		name: "readiness", log: log, within: readyWithin,
		look: func(ctx context.Context) (struct{}, error) { return struct{}{}, router.Ready(ctx) },
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { ready(w, r, readiness) })
	mux.Handle("GET /metrics", m.handler())
	h := &health{address: "http://" + listener.Addr().String(), server: &http.Server{
		Handler: loopbackHost(mux), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
	guarded(log, "health endpoints", func() {
		if err := h.server.Serve(listener); err != http.ErrServerClosed {
			log.Error("the health endpoints have stopped", "error", err)
		}
	})
	return h, nil
}

// ready answers 200 when the database can be read and written, otherwise 503 and why.
func ready(w http.ResponseWriter, r *http.Request, readiness *glance[struct{}]) {
	if _, err := readiness.get(r.Context()); err != nil {
		body, merr := commands.Marshal(commands.Failure{Err: err})
		if merr != nil {
			body = []byte(`{"success":false}`)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write(append(body, '\n'))
		return
	}
	fmt.Fprintln(w, "ok")
}

// loopbackHost refuses requests whose Host is not this machine's loopback: a page in a browser cannot reach the
// endpoints through a name that was rebound to them.
func loopbackHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "this address is for this machine only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// close ends the endpoints; nil has none.
func (h *health) close() {
	if h == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hangUpAfter)
	defer cancel()
	if h.server.Shutdown(ctx) != nil {
		h.server.Close()
	}
}
