package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"
	"go.uber.org/goleak"
)

// ChromiumPrograms and ShellPrograms list the programs that StartChromium and Shell run, for Start.
var (
	ChromiumPrograms = []string{"chromium"}
	ShellPrograms    = []string{"chromium-headless-shell"}
)

// Chromium is a headless Chromium with a fresh profile, for one test.
type Chromium struct {
	t     *testing.T
	ctx   context.Context
	root  context.Context // chromedp context
	heard *feed[string]   // output and exceptions of its pages, printed if the test fails
}

// StartChromium starts a full Chromium for one test.
func StartChromium(ctx context.Context, t *testing.T) *Chromium {
	t.Helper()
	return Full().alone(ctx, t)
}

// StartShell starts the browser of Shell for one test.
func StartShell(ctx context.Context, t *testing.T) *Chromium {
	t.Helper()
	return Shell().alone(ctx, t)
}

func (s *Shared) alone(ctx context.Context, t *testing.T) *Chromium {
	t.Helper()
	t.Cleanup(s.Quit)
	return s.For(ctx, t)
}

// Shared is a browser that the tests of a package share. Each test has its own browser context, with its own storage.
// The browser starts with the first test that uses it. Shared is safe for concurrent use.
type Shared struct {
	program string
	once    sync.Once
	root    context.Context // chromedp context
	quit    func()
	err     error
}

// Shell returns a browser for pages that show no notifications. It has no tabs, menus or extensions, so it uses a
// third of the processor time of StartChromium's.
func Shell() *Shared { return &Shared{program: ShellPrograms[0]} }

// Full returns a full Chromium, which shows notifications.
func Full() *Shared { return &Shared{program: ChromiumPrograms[0]} }

// Program returns the program of the browser, for Start.
func (s *Shared) Program() string { return s.program }

// Root returns the chromedp context of the browser, from which a test creates the contexts of its pages.
func (s *Shared) Root(t *testing.T) context.Context {
	t.Helper()
	if s.once.Do(func() { s.err = s.start() }); s.err != nil {
		t.Fatal(s.err)
	}
	return s.root
}

// For returns the browser for a test.
func (s *Shared) For(ctx context.Context, t *testing.T) *Chromium {
	t.Helper()
	c := &Chromium{t: t, ctx: ctx, root: s.Root(t), heard: &feed[string]{}}
	t.Cleanup(func() {
		if lines := c.heard.all(); t.Failed() && len(lines) > 0 {
			t.Logf("the pages, at last:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	})
	return c
}

// Main runs the tests of a package that share these browsers, ends the browsers, and fails if goroutines are left.
// TestMain calls it. It does not return.
func Main(m *testing.M, browsers ...*Shared) { goleak.VerifyTestMain(quitting{m, browsers}) }

type quitting struct {
	*testing.M
	browsers []*Shared
}

func (q quitting) Run() int {
	for _, b := range q.browsers {
		defer b.Quit()
	}
	return q.M.Run()
}

// Quit ends the browser if it was started. The browser cannot be used after that.
func (s *Shared) Quit() {
	if s.once.Do(func() { s.err = errors.New("the browser was ended") }); s.quit != nil {
		s.quit()
	}
}

// start starts the browser. Its arguments limit connections to this machine.
func (s *Shared) start() error {
	home, err := os.MkdirTemp("", "chromium")
	if err != nil {
		return err
	}
	p, err := start([]string{"HOME=" + home, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "DBUS_SESSION_BUS_ADDRESS=disabled:", "TZ=UTC", "LANG=en_US.UTF-8"}, s.program,
		"--headless", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
		"--user-data-dir="+home, "--remote-debugging-port=0", "about:blank")
	if err != nil {
		return errors.Join(err, os.RemoveAll(home))
	}
	allocating, cancel := context.WithCancel(context.Background())
	s.quit = func() {
		if s.root != nil {
			chromedp.Cancel(s.root)
		}
		cancel()
		p.kill()
		os.RemoveAll(home)
	}
	starting, end := context.WithTimeout(allocating, Patience)
	defer end()
	address, err := p.prints(starting, regexp.MustCompile(`^DevTools listening on (ws://\S+)`))
	if err != nil {
		return err
	}
	allocator, _ := remote.NewAllocator(allocating, address[1], remote.NoModifyURL)
	s.root, _ = chromedp.NewContext(allocator, chromedp.WithErrorf(func(format string, args ...any) {
		p.lines.add(fmt.Sprintf(format, args...))
	}))
	if err := chromedp.Do(s.root); err != nil {
		return fmt.Errorf("%w\n%s", err, p.last())
	}
	return nil
}

// NewPage opens a tab of the size of a phone. Other tabs do not see its storage. If receiver is not nil, the page
// subscribes to it instead of to the browser's own push service, which would require a network.
func (c *Chromium) NewPage(receiver *Receiver) (*Page, *Worker) {
	c.t.Helper()
	w := &Worker{t: c.t, ctx: c.ctx, console: c.console("the service worker")}
	console := c.console("the page")
	ctx, cancel := chromedp.NewContext(c.root, chromedp.WithNewBrowserContext(), chromedp.WithListener(func(event any) {
		if e, is := event.(*serviceworker.EventWorkerVersionUpdated); is {
			for _, v := range e.Versions {
				w.versions.add(*v)
			}
		}
		console(event)
	}))
	c.t.Cleanup(cancel)
	w.page = ctx
	if err := c.prepare(ctx, receiver); err != nil {
		c.t.Fatal(err)
	}
	return &Page{t: c.t, ctx: c.ctx, driver: &chromiumTab{ctx}}, w
}

// console returns a function that records what a target prints and throws, to be printed if the test fails.
func (c *Chromium) console(who string) func(event any) {
	return func(event any) {
		switch e := event.(type) {
		case *serviceworker.EventWorkerErrorReported:
			c.heard.add(who + " failed: " + e.ErrorMessage.ErrorMessage)
		case *runtime.EventConsoleAPICalled:
			said, _ := json.Marshal(e.Args)
			c.heard.add(who + " says: " + string(said))
		case *runtime.EventExceptionThrown:
			c.heard.add(who + " throws: " + thrown(e.ExceptionDetails))
		}
	}
}

func (c *Chromium) prepare(ctx context.Context, receiver *Receiver) error {
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch)); err != nil {
		return err
	}
	if _, err := chromedp.Call(ctx, serviceworker.Enable, cdp.Empty{}); err != nil {
		return err
	}
	_, err := chromedp.CallBrowser(ctx, browser.SetPermission, browser.SetPermissionParams{
		Permission: &browser.PermissionDescriptor{Name: "notifications"}, Setting: browser.PermissionSettingGranted,
		BrowserContextID: chromedp.FromContext(ctx).BrowserContextID,
	})
	if err != nil || receiver == nil {
		return err
	}
	_, err = chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: receiver.script()})
	return err
}

// script returns a script that makes a page's subscribe return this subscription.
func (r *Receiver) script() string {
	return fmt.Sprintf(`(() => {
		let held = null;
		const bytes = text => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), c => c.charCodeAt(0)).buffer;
		const keys = { p256dh: %s, auth: %s };
		const made = options => ({ endpoint: %s, expirationTime: null, options, getKey: name => bytes(keys[name]),
			toJSON() { return { endpoint: this.endpoint, expirationTime: null, keys } }, async unsubscribe() { held = null; return true } });
		PushManager.prototype.subscribe = async options => held ??= made(options);
		PushManager.prototype.getSubscription = async () => held;
		PushManager.prototype.permissionState = async () => "granted";
	})()`, quoted(r.P256dh), quoted(r.Auth), quoted(r.Endpoint))
}

// Worker is the service worker of a page.
type Worker struct {
	t        *testing.T
	ctx      context.Context
	page     context.Context // chromedp context
	console  func(event any)
	versions feed[serviceworker.Version]
	version  serviceworker.Version
	tab      *chromiumTab // the worker, once attached
	read     int          // number of notifications that Shown has returned
}

// WorkerNotification is a notification that a service worker has shown.
type WorkerNotification struct {
	Title, Body, Tag string
	Actions          []struct{ Action, Title string }
}

// recording makes a service worker keep the notifications that it shows. Asking the worker for its notifications
// would not work: Chromium forgets those that it has recorded but not displayed yet.
const recording = `(() => {
	const show = registration.showNotification.bind(registration);
	let wake = () => {};
	globalThis.shown = [];
	registration.showNotification = async (title, options) => {
		await show(title, options);
		shown.push({ title, body: options.body, tag: options.tag, actions: options.actions });
		wake();
	};
	globalThis.after = async count => {
		while (shown.length <= count) await new Promise(more => wake = more);
		return JSON.stringify(shown[count]);
	};
})()`

// Push passes the content of a push to the worker, as the browser does after decryption. It waits until the worker is
// active.
func (w *Worker) Push(origin string, text []byte) {
	w.t.Helper()
	if w.tab == nil {
		w.attach()
	}
	_, err := chromedp.Call(w.page, serviceworker.DeliverPushMessage, serviceworker.DeliverPushMessageParams{
		Origin: origin, RegistrationID: w.version.RegistrationID, Data: string(text),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// attach waits for the worker and attaches to it.
func (w *Worker) attach() {
	w.t.Helper()
	var err error
	w.version, err = w.versions.next(w.ctx, func(v serviceworker.Version) bool {
		return v.Status == serviceworker.VersionStatusActivated && v.TargetID != ""
	})
	if err != nil {
		w.t.Fatalf("no service worker comes: %v", err)
	}
	ctx, cancel := chromedp.NewContext(w.page, chromedp.WithTargetID(w.version.TargetID), chromedp.WithListener(w.console))
	w.t.Cleanup(cancel)
	err = chromedp.Do(ctx)
	w.tab = &chromiumTab{ctx}
	if err == nil {
		_, err = w.tab.eval(w.ctx, recording)
	}
	if err != nil {
		w.t.Fatalf("the service worker cannot be listened to: %v", err)
	}
}

// Shown waits for the next notification that the worker shows.
func (w *Worker) Shown() (n WorkerNotification) {
	w.t.Helper()
	text, err := w.tab.eval(w.ctx, fmt.Sprintf("after(%d)", w.read))
	if err == nil {
		err = json.Unmarshal([]byte(text), &n)
	}
	if err != nil {
		w.t.Fatalf("no notification comes: %v", err)
	}
	w.read++
	return n
}

// All returns all notifications that the worker has shown since the first push.
func (w *Worker) All() (list []WorkerNotification) {
	w.t.Helper()
	text, err := w.tab.eval(w.ctx, "JSON.stringify(shown)")
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// chromiumTab is the context of a target.
type chromiumTab struct{ ctx context.Context }

// until returns the target's context, which also ends when end does.
func (tab *chromiumTab) until(end context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(tab.ctx)
	stop := context.AfterFunc(end, func() { cancel(context.Cause(end)) })
	return ctx, func() { stop(); cancel(nil) }
}

func (tab *chromiumTab) open(ctx context.Context, url string) error {
	ctx, cancel := tab.until(ctx)
	defer cancel()
	return chromedp.Do(ctx, chromedp.Navigate(url))
}

func (tab *chromiumTab) eval(ctx context.Context, js string) (text string, err error) {
	ctx, cancel := tab.until(ctx)
	defer cancel()
	yes := true
	r, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: js, AwaitPromise: &yes, ReturnByValue: &yes})
	switch {
	case err != nil:
		return "", err
	case r.ExceptionDetails != nil:
		return "", errors.New("the page throws " + thrown(r.ExceptionDetails))
	case len(r.Result.Value) == 0:
		return "", nil
	}
	err = json.Unmarshal(r.Result.Value, &text)
	return text, err
}

// thrown returns the text of an exception.
func thrown(e *runtime.ExceptionDetails) string {
	if e.Exception != nil && e.Exception.Description != "" {
		return e.Exception.Description
	}
	return e.Text
}

func (tab *chromiumTab) click(ctx context.Context, x, y float64) error {
	ctx, cancel := tab.until(ctx)
	defer cancel()
	return chromedp.Do(ctx, chromedp.MouseClickXY(x, y))
}

func (tab *chromiumTab) press(ctx context.Context, text string) error {
	ctx, cancel := tab.until(ctx)
	defer cancel()
	_, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: text})
	return err
}
