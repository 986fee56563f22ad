package console_test

import (
	"net"
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"mailroom/commands"
	"mailroom/commands/admin"
	"mailroom/commands/coral"
	"mailroom/commands/mail"
	"mailroom/commands/relay"
	"mailroom/commands/route"
	"mailroom/commands/signal"
	"mailroom/commands/surface/phone/browsertest"
	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
)

// shell is the browser of all tests of this package.
var shell = browsertest.Shell()

func TestMain(m *testing.M) { browsertest.Main(m, shell) }

// room is the console of a new database. Each test has its own.
type room struct {
	*surfacetest.Endpoints
	t       *testing.T
	browser *browsertest.Chromium
}

// serveRoom serves the console of a new database with some agents.
func serveRoom(t *testing.T, names ...string) *room {
	t.Helper()
	r := &room{Endpoints: surfacetest.New(t, names...), t: t}
	r.Env.Catalogue = allCommands()
	r.serves("127.0.0.1:0")
	return r
}

// serves serves the console at an address, until the test ends or the server is closed.
func (r *room) serves(at string) *web.Server {
	r.t.Helper()
	server, err := web.Listen(r.t.Context(), r.Env,
		web.Options{Address: at, RatePerSecond: 100_000, Version: "v1.2.3", Console: true})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(server.Close)
	r.Address = server.Address
	return server
}

// keepsAddress serves the console at a fixed address, which it would also have after a restart, like a daemon with a
// configured address.
func (r *room) keepsAddress() {
	r.t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	r.serves(address)
}

// newRoom returns a served room with a browser.
func newRoom(t *testing.T, names ...string) *room {
	t.Helper()
	ctx := browsertest.Start(t, browsertest.ShellPrograms...)
	r := serveRoom(t, names...)
	r.browser = shell.For(ctx, t)
	return r
}

// allCommands returns the commands that the page's views use.
func allCommands() *commands.Catalogue {
	return commands.NewCatalogue(route.Definitions(), relay.Definitions(), coral.Definitions(), mail.Definitions(),
		signal.Definitions(), admin.Definitions())
}

// desk is a page of the console with the operator logged in.
type desk struct{ *browsertest.Screen }

// opens logs in with a one-time code, in a window of a width, and opens a path of the console, such as "/messages".
func (r *room) opens(width int64, dark bool, path string) *desk {
	r.t.Helper()
	d := &desk{r.browser.NewScreen(width, 900, dark)}
	d.Open(r.Address + path + "#code=" + r.code())
	d.Until(`document.querySelector(".rail")`)
	return d
}

// tooWide returns by how many CSS pixels the page is wider than its window, which requires horizontal scrolling.
func (d *desk) tooWide() (n int) {
	d.Eval(`document.documentElement.scrollWidth - innerWidth`, &n)
	return max(0, n)
}
