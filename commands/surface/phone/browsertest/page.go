package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Page is a tab with its own storage, like that of another person, or of the same person on another phone. Its
// methods fail the test if they do not succeed.
type Page struct {
	t      *testing.T
	ctx    context.Context
	driver driver
}

// driver is the set of browser operations that a page uses.
type driver interface {
	// open loads a URL and returns when the page has been loaded.
	open(ctx context.Context, url string) error
	// eval returns the text that a JavaScript expression resolves to, or "" for undefined. The page's own policy does
	// not apply to the expression.
	eval(ctx context.Context, js string) (string, error)
	// click moves the pointer to a point of the window, in CSS pixels, and presses there.
	click(ctx context.Context, x, y float64) error
	// press types text into the focused element.
	press(ctx context.Context, text string) error
}

// Open loads a URL and returns when the page has been loaded.
func (p *Page) Open(url string) {
	p.t.Helper()
	if err := p.driver.open(p.ctx, url); err != nil {
		p.t.Fatalf("open %s: %v", url, err)
	}
}

// Eval evaluates a JavaScript expression, waits for the result if that is a promise, and decodes its JSON into into,
// unless into is nil.
func (p *Page) Eval(js string, into any) {
	p.t.Helper()
	text, err := p.driver.eval(p.ctx, "(async () => JSON.stringify(await ("+js+")))()")
	if err == nil && into != nil {
		err = json.Unmarshal([]byte(text), into)
	}
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", js, err, p.about())
	}
}

// Until waits until a JavaScript expression is true. The expression is evaluated again whenever the document changes,
// even after the page has navigated.
func (p *Page) Until(js string) {
	p.t.Helper()
	watch := fmt.Sprintf(`new Promise((reached, failed) => {
		const look = () => { try { if (%s) { watcher.disconnect(); reached("yes") } } catch (e) { failed(e) } };
		const watcher = new MutationObserver(look);
		watcher.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
		look();
	})`, js)
	var err error
	for range 10 { // navigation discards pending promises
		if _, err = p.driver.eval(p.ctx, watch); err == nil {
			return
		}
		if p.ctx.Err() != nil {
			break
		}
	}
	p.t.Fatalf("it does not come about that %s: %v\n%s", js, err, p.about())
}

// Reads waits until the page shows a text.
func (p *Page) Reads(text string) {
	p.t.Helper()
	p.Until("document.body && document.body.innerText.includes(" + quoted(text) + ")")
}

// Text returns the text that the page shows now.
func (p *Page) Text() (text string) {
	p.t.Helper()
	p.Eval("document.body.innerText", &text)
	return text
}

// control returns an expression for the usable element with a name, which is its label or its text.
func control(name string) string {
	return `[...document.querySelectorAll("button, a[href], input, textarea, summary")].find(e =>
		!e.disabled && e.checkVisibility({ visibilityProperty: true }) && [e.getAttribute("aria-label"), e.innerText, ...[...(e.labels || [])].map(l => l.innerText)]
			.some(n => n && n.replace(/\s+/g, " ").trim() === ` + quoted(name) + `))`
}

// aimed returns an expression for the position of the control with a name, or null if there is none. From then on,
// pointer events outside the control are kept from the page and recorded in window.missed, because the page may move
// between locating and pressing the control.
func aimed(name string) string {
	return `(() => {
		const e = ` + control(name) + `;
		if (!e) return null;
		e.scrollIntoView({ block: "center", behavior: "instant" });
		const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2, top = document.elementFromPoint(x, y);
		const kinds = ["pointerdown", "mousedown", "pointerup", "mouseup", "click"];
		const guard = (event) => {
			if (!event.isTrusted || e.contains(event.target)) return;
			event.preventDefault();
			event.stopImmediatePropagation();
			window.missed = true;
		};
		window.missed = false;
		window.unguard?.();
		window.unguard = () => kinds.forEach((kind) => removeEventListener(kind, guard, true));
		kinds.forEach((kind) => addEventListener(kind, guard, true));
		return { x, y, above: e.contains(top) ? "" : top ? top.outerHTML : "it is outside of the window" };
	})()`
}

// Click waits for a button, link or field with a name, and presses it at its position with the pointer, as a person
// does. It tries again if the page has moved the element meanwhile.
func (p *Page) Click(name string) {
	p.t.Helper()
	// The click may have left the page.
	for missed := "yes"; missed != ""; missed, _ = p.driver.eval(p.ctx, `(window.unguard?.(), window.missed ? "yes" : "")`) {
		var at *struct {
			X, Y  float64
			Above string // element that covers it
		}
		for at == nil { // the element may be recreated between the two steps
			p.Until(control(name))
			p.Eval(aimed(name), &at)
		}
		if at.Above != "" {
			p.t.Fatalf("%q cannot be pressed, something lies above it: %.200s\n%s", name, at.Above, p.about())
		}
		if err := p.driver.click(p.ctx, at.X, at.Y); err != nil {
			p.t.Fatalf("press %q: %v\n%s", name, err, p.about())
		}
	}
}

// Type waits for a field with a name, presses it and types.
func (p *Page) Type(name, text string) {
	p.t.Helper()
	p.Click(name)
	if err := p.driver.press(p.ctx, text); err != nil {
		p.t.Fatalf("type into %q: %v\n%s", name, err, p.about())
	}
}

// about describes what the page shows, for the message of a failure or a timeout.
func (p *Page) about() string {
	ctx, cancel := context.WithTimeout(p.t.Context(), reserve/2)
	defer cancel()
	text, err := p.driver.eval(ctx, `location.pathname + "\n" + (document.body?.innerText ?? "")`)
	if err != nil {
		return "the page does not answer: " + err.Error()
	}
	return "the page shows " + strings.TrimSpace(text)
}

// quoted returns a JavaScript string literal.
func quoted(text string) string {
	literal, err := json.Marshal(text)
	if err != nil {
		panic(err) // cannot happen: a string always has a JSON form
	}
	return string(literal)
}

// Quiet waits until the page's service worker has no more notifications.
func (p *Page) Quiet() {
	p.t.Helper()
	p.Eval(`(async () => {
		const worker = await navigator.serviceWorker.ready;
		while ((await worker.getNotifications()).length > 0) await new Promise(again => setTimeout(again, 10)); // no event tells of it
	})()`, nil)
}
