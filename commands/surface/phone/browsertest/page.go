package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Page is a tab with storage of its own, as that of another person, or the same on another phone. Its methods fail the
// test when they cannot do what they are for.
type Page struct {
	t      *testing.T
	ctx    context.Context
	driver driver
}

// driver is what a page needs of a browser.
type driver interface {
	// open goes to an address and returns when it has been loaded.
	open(ctx context.Context, url string) error
	// eval returns the text that an expression of JavaScript resolves to; "" is undefined. The page's own policy does not
	// bind it.
	eval(ctx context.Context, js string) (string, error)
	// click moves the pointer to a point of the window, in CSS pixels, and presses there.
	click(ctx context.Context, x, y float64) error
	// press types text where the focus is.
	press(ctx context.Context, text string) error
}

// Open goes to an address and returns when it has been loaded.
func (p *Page) Open(url string) {
	p.t.Helper()
	if err := p.driver.open(p.ctx, url); err != nil {
		p.t.Fatalf("open %s: %v", url, err)
	}
}

// Eval evaluates an expression of JavaScript, waits for it when it is a promise, and decodes its JSON into what into
// points to, unless that is nil.
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

// Until waits until an expression of JavaScript is true. It is evaluated anew whenever the document changes, also after
// the page went elsewhere.
func (p *Page) Until(js string) {
	p.t.Helper()
	watch := fmt.Sprintf(`new Promise((reached, failed) => {
		const look = () => { try { if (%s) { watcher.disconnect(); reached("yes") } } catch (e) { failed(e) } };
		const watcher = new MutationObserver(look);
		watcher.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
		look();
	})`, js)
	var err error
	for range 10 { // a document that goes away takes its promises along
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

// Text returns what the page shows now.
func (p *Page) Text() (text string) {
	p.t.Helper()
	p.Eval("document.body.innerText", &text)
	return text
}

// control is an expression for what can be used and has a name: its label, or the text in it.
func control(name string) string {
	return `[...document.querySelectorAll("button, a[href], input, textarea, summary")].find(e =>
		!e.disabled && e.checkVisibility({ visibilityProperty: true }) && [e.getAttribute("aria-label"), e.innerText, ...[...(e.labels || [])].map(l => l.innerText)]
			.some(n => n && n.replace(/\s+/g, " ").trim() === ` + quoted(name) + `))`
}

// aimed is an expression for where the control of a name is, null if there is none. From then on what the pointer does beside it is
// kept from the page and noted in window.missed: the page may move between a look and a press.
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

// Click waits for a button, link or field of a name, and presses it as a person does: where it is, with the pointer. It tries again
// when the page has moved it away meanwhile.
func (p *Page) Click(name string) {
	p.t.Helper()
	for missed := "yes"; missed != ""; missed, _ = p.driver.eval(p.ctx, `(window.unguard?.(), window.missed ? "yes" : "")`) { // it may have left the page
		var at *struct {
			X, Y  float64
			Above string // what lies above it
		}
		for at == nil { // it may be made anew between two looks
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

// Type waits for a field of a name, presses it and types.
func (p *Page) Type(name, text string) {
	p.t.Helper()
	p.Click(name)
	if err := p.driver.press(p.ctx, text); err != nil {
		p.t.Fatalf("type into %q: %v\n%s", name, err, p.about())
	}
}

// about says what the page shows, for a failure, also one of waiting for too long.
func (p *Page) about() string {
	ctx, cancel := context.WithTimeout(p.t.Context(), reserve/2)
	defer cancel()
	text, err := p.driver.eval(ctx, `location.pathname + "\n" + (document.body?.innerText ?? "")`)
	if err != nil {
		return "the page does not answer: " + err.Error()
	}
	return "the page shows " + strings.TrimSpace(text)
}

// quoted makes a literal of JavaScript.
func quoted(text string) string {
	literal, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string has a JSON
	}
	return string(literal)
}

// Quiet waits until no notification of the page's service worker is there any more.
func (p *Page) Quiet() {
	p.t.Helper()
	p.Eval(`(async () => {
		const worker = await navigator.serviceWorker.ready;
		while ((await worker.getNotifications()).length > 0) await new Promise(again => setTimeout(again, 10)); // no event tells of it
	})()`, nil)
}
