package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres"
)

// listenOn serves the endpoints of an open database until the end of the test.
func listenOn(t *testing.T, r *delivery.Engine, address string) (*surfacetest.Endpoints, error) {
	t.Helper()
	e := surfacetest.On(t, r)
	return e, listen(e, address)
}

// listen serves endpoints as a daemon does, until the end of the test.
func listen(e *surfacetest.Endpoints, address string) error {
	d := &daemon{env: e.Env, log: e.Env.Log, engine: e.Router,
		o: Options{Web: web.Options{Address: address, RatePerSecond: 10_000, Version: "v1.2.3"}}}
	d.metrics = newMetrics(d.engine.Ledger, d.o.Web.Version, d.log)
	w, err := web.Listen(e.T.Context(), e.Env, d.endpoints())
	if err == nil {
		e.T.Cleanup(w.Close)
		e.Address = w.Address
	}
	return err
}

func listenTo(t *testing.T, r *delivery.Engine) *surfacetest.Endpoints {
	t.Helper()
	e, err := listenOn(t, r, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestHealth checks that the endpoints are for this machine only.
func TestHealth(t *testing.T) {
	t.Parallel()
	r := openRouter(t, enginetest.Place(t), nil)
	for address, code := range map[string]orchestrator.Code{
		"nowhere": orchestrator.InvalidParams, "192.0.2.1:0": orchestrator.Unavailable,
	} {
		if _, err := listenOn(t, r, address); orchestrator.CodeOf(err) != code {
			t.Errorf("listening on %q: %v", address, err)
		}
	}
	e := listenTo(t, r)
	for _, c := range []struct {
		path, host string
		status     int
	}{
		{"/healthz", "", 200}, {"/readyz", "", 200}, {"/metrics", "", 200}, {"/", "", 404},
		{"/readyz", "localhost", 200}, {"/readyz", "[::1]:9464", 200}, {"/healthz", "127.0.0.1", 200},
		{"/healthz", "evil.example", 403}, {"/metrics", "evil.example:80", 403},
		{"/healthz", "127.0.0.1.evil.example", 403},
	} {
		if got, body := e.Get(c.path, c.host); got != c.status {
			t.Errorf("GET %s as %q: %d %s; want %d", c.path, c.host, got, body, c.status)
		}
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(e.Address, "http://"), ":")
	if _, err := listenOn(t, r, "127.0.0.1:"+port); orchestrator.CodeOf(err) != orchestrator.Unavailable {
		t.Errorf("listening on a port that is taken: %v", err)
	}
}

// TestReadiness checks that a daemon without a usable database is not ready, reports why, and is ready again later.
func TestReadiness(t *testing.T) {
	t.Parallel()
	broken := openRouter(t, filepath.Join(t.TempDir(), "no", "file"), nil)
	if err := os.WriteFile(filepath.Dir(broken.Path()), nil, 0o600); err != nil { // a file in place of its folder
		t.Fatal(err)
	}
	if status, body := listenTo(t, broken).Get("/readyz", ""); status != 503 ||
		!strings.Contains(body, `"success":false`) {
		t.Errorf("/readyz without a database: %d %s", status, body)
	}
	r := surfacetest.OpenRouter(t, ledger.Options{Path: enginetest.Place(t), BusyTimeout: 50 * time.Millisecond})
	e := listenTo(t, r)
	if status, body := e.Get("/readyz", ""); status != 200 {
		t.Fatalf("/readyz: %d %s", status, body)
	}
	release := enginetest.Jam(t, r.Path())
	if status, body := e.Get("/readyz", ""); status != 503 || !strings.Contains(body, `"error":"busy"`) {
		t.Errorf("/readyz while another program keeps everybody from writing: %d %s", status, body)
	}
	if status, body := e.Get("/healthz", ""); status != 200 {
		t.Errorf("/healthz meanwhile: %d %s", status, body)
	}
	release()
	if status, body := e.Get("/readyz", ""); status != 200 {
		t.Errorf("/readyz afterwards: %d %s", status, body)
	}
}

// TestGlance checks that a database that does not respond blocks nobody, is read once at a time, and that the result
// is kept for a while.
func TestGlance(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		var looks atomic.Int32
		hold := make(chan struct{})
		g := &glance[int32]{log: slog.New(slog.DiscardHandler), keep: time.Second, within: 2 * time.Second}
		g.look = func(context.Context) (int32, error) {
			n := looks.Add(1)
			switch n {
			case 1:
				<-hold
			case 3:
				panic("a bug")
			}
			return n, nil
		}
		begin, answers := time.Now(), make(chan error, 5)
		for range 5 {
			go func() {
				_, err := g.get(t.Context())
				answers <- err
			}()
		}
		for range 5 {
			if err := <-answers; orchestrator.CodeOf(err) != orchestrator.Busy {
				t.Errorf("a look that hangs: %v", err)
			}
		}
		if took := time.Since(begin); took != 2*time.Second || looks.Load() != 1 {
			t.Errorf("five askers waited %s for %d looks; want 2s and 1", took, looks.Load())
		}
		close(hold)
		synctest.Wait()
		for _, want := range []int32{1, 1, 2} {
			if got, err := g.get(t.Context()); got != want || err != nil {
				t.Errorf("got %d, %v; want %d", got, err, want)
			}
			<-time.After(600 * time.Millisecond)
		}
		<-time.After(time.Second)
		if _, err := g.get(t.Context()); err == nil {
			t.Error("a look that panicked gave no error")
		}
	})
}

// refusing is a transport that fails.
type refusing struct{}

func (refusing) Check(address string) (string, error) { return address, nil }
func (refusing) MaxBatch() int                        { return 1 }
func (refusing) Deliver(_ context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages))
	for i := range errs {
		errs[i] = errors.New("no")
	}
	return errs
}

// addAgents adds agents to whom nothing can be delivered.
func addAgents(t *testing.T, r *delivery.Engine, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, _, err := agents.Add(t.Context(), r.Ledger,
			agents.Update{Name: name, Deliver: new("no:where")}); err != nil {
			t.Fatal(err)
		}
	}
}

// oddTraffic sends messages that cannot be delivered, and writes other rows into the table, as another program may.
func oddTraffic(t *testing.T, r *delivery.Engine) {
	t.Helper()
	for range 2 {
		if _, err := messages.Send(t.Context(), r.Ledger,
			orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.DeliverAll(t.Context(), delivery.Options{ClaimSize: 1}); err != nil {
		t.Fatal(err)
	}
	noText := `x'ff'`
	if postgres.IsAddress(r.Path()) { // PostgreSQL accepts no value of another type
		noText = `'odd'`
	}
	if _, err := enginetest.Plain(t, r.Path()).ExecContext(t.Context(),
		`INSERT INTO agent_message (message_id, sender, recipient, payload, status) VALUES
		('m1', 'a', 'stranger', '1', 'pending'), ('m2', 'a', `+noText+`, '1', 'pending'), ('m3', 'a', 'b', '1', `+
			noText+`)`); err != nil {
		t.Fatal(err)
	}
}

// TestMetrics checks that values that others write into the table, such as names, statuses or BLOBs, become no
// labels, and neither do tokens.
func TestMetrics(t *testing.T) {
	t.Parallel()
	r := surfacetest.OpenRouter(t, ledger.Options{
		Path: enginetest.Place(t), Transports: map[string]orchestrator.Transport{"no": refusing{}},
	})
	addAgents(t, r, "a", "b")
	e := listenTo(t, r)
	oddTraffic(t, r)
	if err := r.Ledger.Write(t.Context(), store.Of("b"), func(x *ledger.Tx) error {
		return cost.Note(x, "b", []cost.Use{{Sender: "a", Type: "note", Way: cost.WayTool, Messages: 1, Bytes: 70},
			{Sender: "a", Type: "STATUS", Way: cost.WayTool, Messages: 1, Bytes: 7}})
	}); err != nil {
		t.Fatal(err)
	}
	token := e.Token("a", false)
	if status, body := e.Run(token, "agent_list", `{}`); status != 200 {
		t.Fatal(status, body)
	}
	status, body := e.Get("/metrics", "")
	if status != 200 {
		t.Fatalf("/metrics: %d %s", status, body)
	}
	for _, line := range []string{
		`mailroom_database_up 1`,
		`mailroom_delivery_attempts_total{outcome="failed"} 2`,
		`mailroom_delivery_attempts_total{outcome="delivered"} 0`,
		`mailroom_given_up_total 0`,
		`mailroom_backlog{recipient="b",status="retry"} 2`,
		`mailroom_backlog{recipient="(unknown)",status="pending"} 2`,
		`mailroom_messages{status="retry"} 2`,
		`mailroom_messages{status="(other)"} 1`,
		`mailroom_messages{status="failed"} 0`,
		`mailroom_unread 0`,
		`mailroom_context_bytes{agent="b",way="tool"} 77`,
		`mailroom_build_info{version="v1.2.3"} 1`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, name := range []string{"mailroom_oldest_undelivered_seconds ", `mailroom_database_bytes{file="wal"} `,
		"go_goroutines ", "process_cpu_seconds_total ", "process_start_time_seconds ", "stranger", token} {
		if want := name != "stranger" && name != token; strings.Contains(body, name) != want {
			t.Errorf("there is %s: %t; want %t", name, !want, want)
		}
	}
}

func TestMetricsOfSchedules(t *testing.T) {
	t.Parallel()
	m := newMetrics(surfacetest.OpenRouter(t, ledger.Options{Path: enginetest.Place(t)}).Ledger, "test",
		slog.New(slog.DiscardHandler))
	m.ran("poll", 2*time.Second, nil)
	m.ran("poll", time.Second, orchestrator.Errorf(orchestrator.Busy, "it is"))
	var b strings.Builder
	m.write(&b)
	for _, line := range []string{
		`mailroom_scheduled_runs_total{command="poll",outcome="ok"} 1`,
		`mailroom_scheduled_runs_total{command="poll",outcome="busy"} 1`,
		`mailroom_scheduled_run_seconds_sum{command="poll"} 3`,
		`mailroom_scheduled_run_seconds_count{command="poll"} 2`,
	} {
		if !strings.Contains(b.String(), "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}
