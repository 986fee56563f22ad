package console_test

import "testing"

// TestFrame checks that the code in the address is exchanged for a session once and stays in no history, and that
// each view has a path and a key.
func TestFrame(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	d := r.opens(1440, false, "/")
	var at string
	if d.Eval(`location.href + " " + sessionStorage.length + " " + document.cookie`, &at); at != r.Address+"/ 1 " {
		t.Errorf("after logging in the page is at %q", at)
	}
	for _, step := range []struct{ key, path string }{
		{"m", "/messages"}, {"t", "/threads"}, {"a", "/agents"}, {"q", "/questions"}, {"o", "/operations"},
		{"u", "/audit"}, {"n", "/"},
	} {
		d.Key("g", step.key)
		d.Until(`location.pathname === "` + step.path +
			`" && document.querySelector(".rail a[aria-current]")?.getAttribute("href") === "` + step.path + `"`)
		d.Until(`document.querySelector("main h1")`)
	}
	d.Eval(`history.back()`, nil)
	d.Until(`location.pathname === "/audit"`)
	d.Eval(`(() => {
		const link = Object.assign(document.createElement("a"), { href: "/questions/xyz" });
		document.body.append(link);
		link.click();
	})()`, nil)
	d.Reads("The question xyz is not among the newest")
	d.Key("?")
	d.Until(`document.querySelector("#keys[open]")`)
	d.Key("Escape")
	d.Until(`!document.querySelector("#keys[open]")`)
}

// TestGate checks that a visitor without a session is told how to get one, and that an administrator's token logs in.
func TestGate(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "ann")
	s := r.browser.NewScreen(1440, 900, false)
	s.Open(r.Address + "/#code=mailroom_code_that_nobody_has_issued")
	s.Reads("mailroom console")
	s.Until(`document.querySelector("[role=alert]")`)
	s.Click("Log in")
	s.Reads("The field is empty.")
	s.Type("Token", r.Token("ann", true))
	s.Click("Log in")
	s.Until(`document.querySelector(".rail")`)
	s.Open(r.Address + "/operations/doctor")
	s.Reads("ann, this page")
	s.Click("Log out")
	s.Until(`document.querySelector(".gate")`)
}
