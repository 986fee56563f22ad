package console_test

import (
	"context"
	"testing"

	"mailroom/commands/surface/phone/browsertest"
	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator/agents"
)

// TestChromiumLogsIn: the code of the address becomes a token that the browser keeps for this origin and this tab, and the address has
// the code no longer. A reload needs no other.
func TestChromiumLogsIn(t *testing.T) {
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.ChromiumPrograms...)
	page, _ := browsertest.StartChromium(ctx, t).NewPage(nil)
	logsIn(ctx, t, page)
}

// logsIn opens the console with a code.
func logsIn(ctx context.Context, t *testing.T, page *browsertest.Page) {
	t.Helper()
	f := surfacetest.New(t)
	server, err := web.Listen(ctx, f.Env, web.Options{Address: "127.0.0.1:0", RatePerSecond: 200, Version: "v1.2.3", Console: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	code, err := agents.IssueCode(ctx, f.Router.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	const loggedIn = `Object.values(sessionStorage).some(v => v.includes("mailroom_console_")) && document.body.innerText.includes("operator")`
	page.Open(server.Address + "/messages#code=" + code)
	page.Until(loggedIn)
	var left struct{ Hash, Path, Cookie, Local string }
	page.Eval(`({ hash: location.hash, path: location.pathname, cookie: document.cookie, local: JSON.stringify(localStorage) })`, &left)
	if left.Hash != "" || left.Path != "/messages" || left.Cookie != "" || left.Local != "{}" {
		t.Errorf("the page leaves %+v", left)
	}
	page.Open(server.Address + "/")
	page.Until(loggedIn)
	if sessions, err := agents.Tokens(ctx, f.Router.Ledger, "operator"); err != nil || len(sessions) != 1 {
		t.Errorf("the sessions are %v: %v", sessions, err)
	}
}
