package console_test

import (
	"testing"

	_ "github.com/mattn/go-sqlite3"
	"go.uber.org/goleak"

	"mailroom/commands/surface/phone/browsertest"
	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator/agents"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// room is the console of a new database. Each test has one, with a browser of its own.
type room struct {
	*surfacetest.Endpoints
	t       *testing.T
	browser *browsertest.Chromium
}

// serveRoom serves the console of a new database with some agents in it.
func serveRoom(t *testing.T, names ...string) *room {
	t.Helper()
	r := &room{Endpoints: surfacetest.New(t, names...), t: t}
	server, err := web.Listen(t.Context(), r.Env, web.Options{Address: "127.0.0.1:0", RatePerSecond: 100_000, Version: "v1.2.3", Console: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	r.Address = server.Address
	return r
}

// newRoom is serveRoom with a browser.
func newRoom(t *testing.T, names ...string) *room {
	t.Helper()
	ctx := browsertest.Start(t, browsertest.ChromiumPrograms...)
	r := serveRoom(t, names...)
	r.browser = browsertest.StartChromium(ctx, t)
	return r
}

// desk is a page of the console, on which the operator is logged in.
type desk struct{ *browsertest.Screen }

// opens logs in with a one-time code, in a window of a width, and opens an address of the console, such as "/messages".
func (r *room) opens(width int64, dark bool, path string) *desk {
	r.t.Helper()
	code, err := agents.IssueCode(r.t.Context(), r.Router.Ledger)
	if err != nil {
		r.t.Fatal(err)
	}
	d := &desk{r.browser.NewScreen(width, 900, dark)}
	d.Open(r.Address + path + "#code=" + code)
	d.Until(`document.querySelector(".rail")`)
	return d
}

// tooWide reports how many CSS pixels the page is wider than its window: none, or one has to scroll sideways.
func (d *desk) tooWide() (n int) {
	d.Eval(`document.documentElement.scrollWidth - innerWidth`, &n)
	return max(0, n)
}
