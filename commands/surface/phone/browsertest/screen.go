package browsertest

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Screen is a page of a desktop browser with a keyboard.
type Screen struct {
	*Page
	tab    *chromiumTab
	faults feed[string]
}

// NewScreen opens a tab of a size in CSS pixels, in the light or the dark theme. Other tabs do not see its storage.
// At the end of the test, exceptions, printed errors and policy violations of the page fail the test.
func (c *Chromium) NewScreen(width, height int64, dark bool) *Screen {
	c.t.Helper()
	s := &Screen{}
	ctx, cancel := chromedp.NewContext(c.root, chromedp.WithNewBrowserContext(), chromedp.WithListener(s.listen))
	s.tab = &chromiumTab{ctx}
	s.Page = &Page{t: c.t, ctx: c.ctx, driver: s.tab}
	c.t.Cleanup(func() {
		cancel()
		for _, fault := range s.faults.all() {
			c.t.Errorf("the page: %s", fault)
		}
	})
	theme := "light"
	if dark {
		theme = "dark"
	}
	err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height))
	if err == nil {
		_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
	}
	if err == nil {
		_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func (s *Screen) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		s.faults.add("it throws " + thrown(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			var said []string
			for _, arg := range e.Args {
				said = append(said, string(arg.Value)+arg.Description)
			}
			s.faults.add("it prints the error " + strings.Join(said, " "))
		}
	case *log.EventEntryAdded:
		// Failed requests are shown on the page.
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			s.faults.add(fmt.Sprintf("%s: %s", e.Entry.Source, e.Entry.Text))
		}
	}
}

// Hide minimizes the window of the page, or restores it.
func (s *Screen) Hide(hidden bool) {
	s.t.Helper()
	ctx, cancel := s.tab.until(s.ctx)
	defer cancel()
	state := browser.WindowStateNormal
	if hidden {
		state = browser.WindowStateMinimized
	}
	window, err := chromedp.Call(ctx, browser.GetWindowForTarget, browser.GetWindowForTargetParams{})
	if err == nil {
		_, err = chromedp.Call(ctx, browser.SetWindowBounds, browser.SetWindowBoundsParams{WindowID: window.WindowID, Bounds: &browser.Bounds{WindowState: state}})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// CloseTab closes the tab as a person does: the page is notified, but gets no time to react.
func (s *Screen) CloseTab() {
	s.t.Helper()
	ctx, cancel := s.tab.until(s.ctx)
	defer cancel()
	if _, err := chromedp.Call(ctx, page.Close, cdp.Empty{}); err != nil {
		s.t.Fatal(err)
	}
}

// keyCodes are the codes by which the browser itself handles keys that close dialogs and press buttons.
var keyCodes = map[string]int64{"Escape": 27, "Enter": 13, "Tab": 9}

// Key presses keys one after the other, each by its name: "j", "Enter", "Escape", "ArrowDown".
func (s *Screen) Key(names ...string) {
	s.t.Helper()
	ctx, cancel := s.tab.until(s.ctx)
	defer cancel()
	for _, name := range names {
		text := ""
		if len([]rune(name)) == 1 {
			text = name
		} else if name == "Enter" {
			text = "\r"
		}
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
			p := input.DispatchKeyEventParams{Type: kind, Key: name, Code: name, WindowsVirtualKeyCode: keyCodes[name]}
			if kind == input.DispatchKeyEventTypeKeyDown {
				p.Text = text
			}
			if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, p); err != nil {
				s.t.Fatalf("press %s: %v", name, err)
			}
		}
	}
}

// Picture writes the visible part of the page as PNG, or, with whole, all of the page.
func (s *Screen) Picture(file string, whole bool) {
	s.t.Helper()
	if err := os.WriteFile(file, s.shot(whole), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Screen) shot(whole bool) []byte {
	s.t.Helper()
	ctx, cancel := s.tab.until(s.ctx)
	defer cancel()
	shot, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &whole})
	if err != nil {
		s.t.Fatal(err)
	}
	return shot.Data
}

// Whole returns the whole page as PNG, as shown in a window of the height of the page, but between least and most.
func (s *Screen) Whole(width, least, most int64) []byte {
	s.t.Helper()
	ctx, cancel := s.tab.until(s.ctx)
	defer cancel()
	resize := func(height int64) {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height)); err != nil {
			s.t.Fatal(err)
		}
		s.Eval(`(document.activeElement?.blur(), new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(1)))))`, nil)
	}
	if _, err := chromedp.Call(ctx, emulation.SetScrollbarsHidden, emulation.SetScrollbarsHiddenParams{Hidden: true}); err != nil {
		s.t.Fatal(err)
	}
	resize(least)
	var high int64
	s.Eval(`document.documentElement.scrollHeight`, &high)
	resize(min(max(high, least), most))
	defer resize(least)
	return s.shot(false)
}

// SetClock makes pages that are opened from now on see a time that is later than this machine's by a duration.
func (s *Screen) SetClock(later time.Duration) {
	s.t.Helper()
	ctx, cancel := s.tab.until(s.ctx)
	defer cancel()
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: fmt.Sprintf(`{
		const Real = Date;
		globalThis.Date = class extends Real {
			constructor(...given) { given.length ? super(...given) : super(Real.now() + %[1]d); }
			static now() { return Real.now() + %[1]d; }
		};
	}`, later.Milliseconds())})
	if err != nil {
		s.t.Fatal(err)
	}
}
