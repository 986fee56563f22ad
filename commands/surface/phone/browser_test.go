package phone_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"

	"mailroom/commands"
	"mailroom/commands/surface/phone"
	"mailroom/commands/surface/phone/browsertest"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/router"
)

// patience is the timeout of any browser operation. Only failing tests reach it.
const patience = 60 * time.Second

// The browsers that the tests of this package share; chromium is for tests of notifications. Each test has its own
// origin, and therefore its own device.
var shell, chromium = browsertest.Shell(), browsertest.Full()

func TestMain(m *testing.M) { browsertest.Main(m, shell, chromium) }

// machine is a database with the listener for phones.
type machine struct {
	*delivery.Engine
	t       *testing.T
	browser *browsertest.Shared
	file    string // file of the database
	listen  *phone.Phone
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	return newMachineIn(t, shell)
}

// newMachineIn returns a machine whose tabs open in browser.
func newMachineIn(t *testing.T, browser *browsertest.Shared) *machine {
	t.Helper()
	file := enginetest.Place(t)
	router, err := router.Open(t.Context(), enginetest.Placed(ledger.Options{Path: file, Log: slog.New(slog.DiscardHandler)}))
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{Engine: router, t: t, browser: browser, file: file}
	m.up("127.0.0.1:0")
	t.Cleanup(func() {
		m.down()
		if err := router.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// up opens the listener at an address, and down closes it.
func (m *machine) up(address string) {
	m.t.Helper()
	listen, err := phone.Listen(context.WithoutCancel(m.t.Context()), m.Engine.Ledger, slog.New(slog.DiscardHandler), phone.Options{Address: address})
	if err != nil {
		m.t.Fatal(err)
	}
	m.listen = listen
}

func (m *machine) down() { m.listen.Close() }

func (m *machine) upAgain() { m.up(strings.TrimPrefix(m.listen.Address, "http://")) }

// tab is a page of the browser. Errors on its console, in particular policy violations, fail the test.
type tab struct {
	t       *testing.T
	ctx     context.Context
	machine *machine
}

// watching makes the page report violations of its policy on the console. It keeps the browser's offer to install the
// app from the page, because the browser decides when to make the offer. It counts the page's unfinished checks for
// news: the page clears its timer at the beginning and at the end of each check, and sets it at the end. The time in
// which an answer can be taken back ends at once, until a test halts the clock. The time then advances by pass(ms),
// and by a millisecond whenever the page reads the clock.
const watching = `
	addEventListener("securitypolicyviolation", (e) => console.error("violated", e.violatedDirective, e.blockedURI, e.sourceFile, e.lineNumber));
	addEventListener("beforeinstallprompt", (e) => e.isTrusted && e.stopImmediatePropagation());
	(() => {
		const [set, clear] = [setTimeout, clearTimeout];
		let looking = 0;
		window.clearTimeout = (timer) => { looking++; clear(timer); };
		window.setTimeout = (work, after) => {
			looking -= 2;
			window.looked?.(looking);
			return window.frozen ? 0 : set(work, after);
		};
	})();
	(() => {
		const Real = Date, beats = [];
		let halted = 0, ahead = 0;
		const read = () => (halted ? ++halted : Real.now()) + ahead;
		window.Date = class extends Real {
			constructor(...given) { super(...(given.length > 0 ? given : [read()])); }
			static now() { return read(); }
		};
		window.setInterval = (work) => beats.push(work);
		window.clearInterval = (n) => { beats[n - 1] = () => {}; };
		window.halt = () => { halted = Real.now(); };
		window.pass = (ms) => {
			ahead += ms;
			for (const beat of beats) beat();
			if (!halted) ahead = 0;
		};
		new MutationObserver(() => !halted && document.querySelector("[data-until]") && pass(5000)).observe(document, { subtree: true, childList: true });
	})();`

// open opens a tab of phone size at a path of a machine.
func (m *machine) open(path string) *tab {
	m.t.Helper()
	browsertest.Start(m.t, m.browser.Program())
	var wrong sync.Map
	ctx, cancel := chromedp.NewContext(m.browser.Root(m.t), chromedp.WithNewBrowserContext(), chromedp.WithListener(func(event any) {
		if said := complaint(event); said != "" {
			wrong.Store(said, true)
		}
	}))
	m.t.Cleanup(func() {
		cancel()
		wrong.Range(func(said, _ any) bool { m.t.Errorf("the page complains: %v", said); return true })
	})
	tb := &tab{m.t, ctx, m}
	tb.command(nil, chromedp.Do(ctx)) // without a deadline: the tab lives as long as this context
	tb.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateTouch))
	tb.command(chromedp.Call(ctx, log.Enable, cdp.Empty{}))
	tb.command(chromedp.Call(ctx, serviceworker.Enable, cdp.Empty{}))
	tb.command(chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watching}))
	tb.scheme("light")
	tb.permit("prompt")
	tb.do(chromedp.Navigate(m.listen.Address + path))
	return tb
}

// complaint returns the problem that an event of a page reports, or "". Failed requests do not count, since tests
// make requests fail.
func complaint(event any) string {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		thrown, _ := json.Marshal(e.ExceptionDetails)
		return string(thrown)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			args, _ := json.Marshal(e.Args)
			return string(args)
		}
	case *serviceworker.EventWorkerErrorReported:
		return "the service worker: " + e.ErrorMessage.ErrorMessage
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			return e.Entry.Text + " " + e.Entry.URL
		}
	}
	return ""
}

func (tb *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		tb.t.Fatal(err)
	}
}

// eval evaluates an expression in the page, as if a person had just touched the page, and waits for its promise.
func eval[T any](tb *tab, expression string, args ...any) T {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](fmt.Sprintf(expression, args...), chromedp.EvalAwaitPromise,
		func(p *runtime.EvaluateParams) { p.UserGesture = new(true) }))
	if err != nil {
		tb.t.Fatalf("%s: %v\n%s", fmt.Sprintf(expression, args...), err, tb.text())
	}
	return value
}

// js returns a value as a JavaScript expression.
func js(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// text returns the text that the page shows, for failure messages.
func (tb *tab) text() string {
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`globalThis.document?.body.innerText ?? ""`))
	return text
}

// until waits until a condition holds. It checks the condition whenever the page or the focus changes.
func (tb *tab) until(condition string, args ...any) {
	tb.t.Helper()
	eval[bool](tb, `new Promise((resolve) => {
		const look = () => { if (%s) { observer.disconnect(); resolve(true); } };
		const observer = new MutationObserver(look);
		observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
		document.addEventListener("focusin", look);
		look();
	})`, fmt.Sprintf(condition, args...))
}

// sees waits until the page shows a text. It makes the page look for news, as if the person had just returned to it.
func (tb *tab) sees(text string) {
	tb.t.Helper()
	eval[bool](tb, `dispatchEvent(new Event("focus"))`)
	tb.shows(text)
}

// shows waits until the page shows a text by itself.
func (tb *tab) shows(text string) {
	tb.t.Helper()
	tb.until(`document.body.innerText.includes(%s)`, js(text))
}

// freeze stops the page from looking for news by itself.
func (tb *tab) freeze() { eval[chromedp.Void](tb, `void (window.frozen = true)`) }

// refreshed makes the page look for news, and waits until that and everything before has ended. It also freezes the
// page.
func (tb *tab) refreshed() {
	tb.t.Helper()
	eval[chromedp.Void](tb, `new Promise((resolve) => {
		window.frozen = true;
		window.looked = (looking) => looking === 0 && resolve();
		dispatchEvent(new Event("focus"));
	})`)
}

// hides fails the test if the page shows a text.
func (tb *tab) hides(text string) {
	tb.t.Helper()
	if all := tb.text(); strings.Contains(all, text) {
		tb.t.Errorf("the page shows %q:\n%s", text, all)
	}
}

// press presses the button or link with a name.
func (tb *tab) press(name string) {
	tb.t.Helper()
	const find = `[...document.querySelectorAll("button, a, summary")].find((e) => e.checkVisibility() && [e, ...e.querySelectorAll("span")].some((n) => n.innerText.trim() === %s))`
	tb.until(find, js(name))
	eval[chromedp.Void](tb, find+`.click()`, js(name))
}

// halt halts the page's clock. The service worker, whose clock continues, is not asked to send the page's held
// answers.
func (tb *tab) halt() {
	tb.t.Helper()
	eval[chromedp.Void](tb, `(halt(), void delete ServiceWorkerRegistration.prototype.sync)`)
}

// answers presses an answer button while the clock is halted, and lets the time pass in which the answer can be taken
// back.
func (tb *tab) answers(name string) {
	tb.t.Helper()
	tb.press(name)
	tb.until(`document.querySelector("[data-until]")`)
	eval[chromedp.Void](tb, `pass(5000)`)
}

// project returns the app's name for the project of the machine's database.
func (m *machine) project() string { return commands.ProjectName(m.file) }

// fill types into the field with a label.
func (tb *tab) fill(label, text string) {
	tb.t.Helper()
	tb.until(`[...document.querySelectorAll("label")].some((e) => e.innerText === %s)`, js(label))
	eval[chromedp.Void](tb, `(() => { const field = [...document.querySelectorAll("label")].find((e) => e.innerText === %s).control;
		field.focus(); field.select(); })()`, js(label))
	tb.do(chromedp.KeyEvent(text))
}

// scheme makes the page use the light or the dark theme, without motion, which would blur comparisons.
func (tb *tab) scheme(name string) {
	tb.t.Helper()
	tb.command(chromedp.Call(tb.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}))
}

// permit sets the person's choice about notifications: granted, denied or prompt.
func (tb *tab) permit(setting browser.PermissionSetting) {
	tb.t.Helper()
	tb.command(chromedp.CallBrowser(tb.ctx, browser.SetPermission, browser.SetPermissionParams{
		Permission: &browser.PermissionDescriptor{Name: "notifications"}, Setting: setting,
		BrowserContextID: chromedp.FromContext(tb.ctx).BrowserContextID,
	}))
}

// command fails the test if a command of the browser's protocol failed.
func (tb *tab) command(_ any, err error) {
	tb.t.Helper()
	if err != nil {
		tb.t.Fatal(err)
	}
}

// pair pairs the device of a new tab by a pairing link and approves it.
func (m *machine) pair() (*tab, questions.Device) {
	m.t.Helper()
	tb := m.open(m.pairingLink())
	return tb, m.approves(tb)
}

// pairingLink returns the path at which a phone pairs.
func (m *machine) pairingLink() string {
	m.t.Helper()
	code, _, err := questions.StartPairing(m.t.Context(), m.Ledger)
	if err != nil {
		m.t.Fatal(err)
	}
	return "/pair#c=" + code
}

// approves pairs a page that shows the code, and approves the device.
func (m *machine) approves(tb *tab) questions.Device {
	m.t.Helper()
	tb.press("Pair this device")
	tb.sees("Approve this device")
	d, err := person.Approve(m.t.Context(), m.Engine.Ledger, m.device().Fingerprint)
	if err != nil {
		m.t.Fatal(err)
	}
	tb.sees("No open questions.")
	return d
}

// device returns the newest device.
func (m *machine) device() questions.Device {
	m.t.Helper()
	devices, err := questions.Devices(m.t.Context(), m.Ledger)
	if err != nil || len(devices) == 0 {
		m.t.Fatalf("no device: %v", err)
	}
	return devices[len(devices)-1]
}
