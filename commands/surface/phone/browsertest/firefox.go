package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// firefoxPrefs make Firefox use the push service of the test, show notifications on the bus without asking, and
// connect only to this machine. remote.active-protocols 1 is WebDriver BiDi.
const firefoxPrefs = `
user_pref("dom.push.serverURL", %q);
user_pref("dom.push.testing.allowInsecureServerURL", true);
user_pref("dom.push.connection.enabled", true);
user_pref("permissions.default.desktop-notification", 1);
user_pref("alerts.useSystemBackend", true);
user_pref("remote.active-protocols", 1);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.page", 0);
user_pref("browser.newtabpage.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("dom.ipc.processPrelaunch.enabled", false);
user_pref("devtools.console.stdout.content", true);
user_pref("network.proxy.type", 1);
user_pref("network.proxy.http", "127.0.0.1");
user_pref("network.proxy.http_port", 9);
user_pref("network.proxy.ssl", "127.0.0.1");
user_pref("network.proxy.ssl_port", 9);
user_pref("network.proxy.failover_direct", false);
user_pref("network.proxy.no_proxies_on", "127.0.0.1");
`

// Firefox is a headless Firefox with a fresh profile.
type Firefox struct {
	t    *testing.T
	ctx  context.Context
	bidi *bidi
}

// FirefoxPrograms lists what StartFirefox and NewDesktop require, for Start.
var FirefoxPrograms = []string{"firefox-esr", "dbus-daemon", "libnotify.so.4"}

// StartFirefox starts a browser that subscribes at a push service and shows its notifications on a desktop.
func StartFirefox(ctx context.Context, t *testing.T, desktop *Desktop, push *PushService) *Firefox {
	t.Helper()
	home := t.TempDir()
	profile := filepath.Join(home, "profile")
	if err := os.Mkdir(profile, 0o700); err != nil {
		t.Fatal(err)
	}
	prefs := fmt.Appendf(nil, firefoxPrefs, push.Socket())
	if err := os.WriteFile(filepath.Join(profile, "user.js"), prefs, 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"DBUS_SESSION_BUS_ADDRESS=" + desktop.addr, "HOME=" + home, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "MOZ_CRASHREPORTER_DISABLE=1"}
	p, address := run(ctx, t, regexp.MustCompile(`^WebDriver BiDi listening on (ws://\S+)`), env,
		"firefox-esr", "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0")
	f := &Firefox{t: t, ctx: ctx}
	f.bidi = connectBiDi(ctx, t, address[1]+"/session", func(method string, params json.RawMessage) {
		p.lines.add(method + " " + string(params)) // printed if the test fails
	})
	f.must("session.new", map[string]any{"capabilities": map[string]any{}}, nil)
	f.must("session.subscribe", map[string]any{"events": []string{"log.entryAdded", "network.fetchError"}}, nil)
	return f
}

func (f *Firefox) must(method string, params, result any) {
	f.t.Helper()
	if err := f.bidi.call(f.ctx, method, params, result); err != nil {
		f.t.Fatal(err)
	}
}

// NewPage opens a tab. Other tabs do not see its storage and subscriptions.
func (f *Firefox) NewPage() *Page {
	f.t.Helper()
	var user struct{ UserContext string }
	f.must("browser.createUserContext", map[string]any{}, &user)
	tab := firefoxTab{bidi: f.bidi}
	f.must("browsingContext.create", map[string]any{"type": "window", "userContext": user.UserContext}, &tab)
	return &Page{t: f.t, ctx: f.ctx, driver: &tab}
}

// firefoxTab is a browsing context.
type firefoxTab struct {
	bidi    *bidi
	Context string
}

func (tab *firefoxTab) open(ctx context.Context, url string) error {
	return tab.bidi.call(ctx, "browsingContext.navigate", map[string]any{"context": tab.Context, "url": url, "wait": "complete"}, nil)
}

func (tab *firefoxTab) eval(ctx context.Context, js string) (string, error) {
	var r struct {
		Type             string
		Result           struct{ Value string }
		ExceptionDetails struct{ Text string }
	}
	err := tab.bidi.call(ctx, "script.evaluate", map[string]any{
		"expression": js, "target": map[string]any{"context": tab.Context}, "awaitPromise": true,
	}, &r)
	if err == nil && r.Type == "exception" {
		err = fmt.Errorf("the page throws %s", r.ExceptionDetails.Text)
	}
	return r.Result.Value, err
}

func (tab *firefoxTab) click(ctx context.Context, x, y float64) error {
	return tab.act(ctx, map[string]any{"type": "pointer", "id": "mouse", "actions": []any{
		map[string]any{"type": "pointerMove", "x": int(x), "y": int(y)},
		map[string]any{"type": "pointerDown", "button": 0},
		map[string]any{"type": "pointerUp", "button": 0},
	}})
}

func (tab *firefoxTab) press(ctx context.Context, text string) error {
	var keys []any
	for _, r := range text {
		keys = append(keys, map[string]any{"type": "keyDown", "value": string(r)}, map[string]any{"type": "keyUp", "value": string(r)})
	}
	return tab.act(ctx, map[string]any{"type": "key", "id": "keyboard", "actions": keys})
}

func (tab *firefoxTab) act(ctx context.Context, source map[string]any) error {
	return tab.bidi.call(ctx, "input.performActions", map[string]any{"context": tab.Context, "actions": []any{source}}, nil)
}
