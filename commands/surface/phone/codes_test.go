package phone

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"golang.org/x/time/rate"
)

// TestCodes checks that a code works once, for five minutes, for the first who uses it.
func TestCodes(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	pair := func(code string) answer {
		t.Helper()
		_, recipient := h.newRecipient()
		return h.ask("POST", "/api/pair", pairBody(code, "x", recipient), nil)
	}
	code := h.code()
	results := make(chan int, 20)
	for range cap(results) {
		go func() { results <- pair(code).status }()
	}
	seen := map[int]int{}
	for range cap(results) {
		seen[<-results]++
	}
	if seen[200] != 1 || seen[403] != cap(results)-1 {
		t.Errorf("20 phones with one code: %v", seen)
	}
	if a := pair(code); a.status != 403 || a.code() != "permission_denied" || a.read("hint") == "" {
		t.Errorf("the code again: %d %s", a.status, a.body)
	}
	old := h.code()
	h.step(5*time.Minute + time.Second)
	if a := pair(old); a.status != 403 {
		t.Errorf("a code that is too old: %d %s", a.status, a.body)
	}
	typed := strings.ToLower(strings.ReplaceAll(h.code(), "-", " "))
	if a := pair(typed); a.status != 200 {
		t.Errorf("a code as people type it: %d %s", a.status, a.body)
	}
	code = h.code()
	before := h.rows()
	_, recipient := h.newRecipient()
	if _, err := age.ParseX25519Recipient(lowOrder); err != nil {
		t.Errorf("the recipient of low order is no recipient at all: %v", err)
	}
	for name, body := range map[string]string{
		"no recipient": pairBody(code, "x", ""), "an identity": pairBody(code, "x", "AGE-SECRET-KEY-1QQPQGPZ"), "upper case": pairBody(code, "x", strings.ToUpper(recipient)),
		"one less": pairBody(code, "x", recipient[:61]), "two": pairBody(code, "x", recipient+" "+recipient), "a blank": pairBody(code, "x", recipient+" "),
		"a point of low order": pairBody(code, "x", lowOrder), "no name": pairBody(code, "", recipient), "blank": pairBody(code, "  ", recipient),
		"long": pairBody(code, strings.Repeat("x", 65), recipient), "a new line": pairBody(code, "a\nb", recipient),
	} {
		if a := h.ask("POST", "/api/pair", body, nil); a.status != 400 || a.code() != "invalid_params" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if after := h.rows(); after != before {
		t.Errorf("they have changed %s to %s", before, after)
	}
	if a := pair(code); a.status != 200 {
		t.Errorf("the code after requests that were wrong otherwise: %d %s", a.status, a.body)
	}
}

// lowOrder is the recipient whose point is zero; nothing can be encrypted for it.
const lowOrder = "age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq5cu47z"

// TestGuessedCodes checks that whoever has the first part of a code has five guesses. Other guesses do not count
// against the code and leave no trace.
func TestGuessedCodes(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	_, recipient := h.newRecipient()
	try := func(code string) int {
		t.Helper()
		return h.ask("POST", "/api/pair", pairBody(code, "x", recipient), nil).status
	}
	code, jammed := h.code(), h.code()
	before := len(h.cells(`SELECT 1 FROM command_trace`))
	for i := range 200 {
		guess := fmt.Sprintf("%04d-%s", i, code[5:])
		if strings.HasPrefix(code, guess[:4]) || strings.HasPrefix(jammed, guess[:4]) {
			continue
		}
		if status := try(guess); status != 403 {
			t.Fatalf("%s: %d", guess, status)
		}
	}
	if after := len(h.cells(`SELECT 1 FROM command_trace`)); after != before {
		t.Errorf("wrong codes left %d spans", after-before)
	}
	wrong := map[bool]string{true: "AAAA", false: "BBBB"}[strings.HasSuffix(jammed, "B")]
	for range 5 {
		if status := try(jammed[:10] + wrong); status != 403 {
			t.Errorf("a guess: %d", status)
		}
	}
	if status := try(jammed); status != 403 {
		t.Errorf("the right code after five guesses: %d", status)
	}
	if status := try(code); status != 200 {
		t.Errorf("another right code meanwhile: %d", status)
	}
}

// TestTooMany checks that guesses of codes and tokens are limited without affecting devices, and that a device with
// too many requests is limited without affecting others.
func TestTooMany(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, func(p *Phone) {
		p.strangers, p.codes, p.devices.PerSecond = rate.NewLimiter(0, 5), rate.NewLimiter(0, 5), 1000
	})
	p, other := h.phone("a"), h.phone("b")
	_, recipient := h.newRecipient()
	q := h.question(`{"options":["a"]}`, false, time.Hour)
	ask := map[string]func() answer{
		"code": func() answer {
			return h.ask("POST", "/api/pair", pairBody("ABCD-EFGH-JKMN", "x", recipient), nil)
		},
		"token":  func() answer { return h.ask("GET", "/api/signals", "", bearer("wrong")) },
		"button": func() answer { return h.ask("POST", "/api/once/"+q+"/0/x", "", nil) },
	}
	for _, kind := range []string{"code", "token", "button"} {
		limited := 0
		for range 20 {
			if a := ask[kind](); a.status == 429 {
				limited++
				if a.code() != "busy" || a.read("hint") == "" || a.header.Get("Retry-After") == "" {
					t.Errorf("%s: %s", kind, a.body)
				}
			}
			if a := p.ask("GET", "/api/signals", ""); a.status != 200 {
				t.Fatalf("a device meanwhile: %d %s", a.status, a.body)
			}
		}
		if want := map[string]int{"code": 15, "token": 15, "button": 20}[kind]; limited != want {
			t.Errorf("%s: %d of 20 were refused; want %d", kind, limited, want)
		}
	}
	if a := h.ask("POST", "/api/pair", pairBody(h.code(), "x", recipient), nil); a.status != 200 {
		t.Errorf("a right code is kept out by those who guess: %d", a.status)
	}
	slow, refused := newHome(t, Options{}, func(p *Phone) { p.devices.PerSecond = 1 }).phone("a"), false
	for range 1000 { // even a slow machine sends more than one per second
		refused = refused || slow.ask("GET", "/api/signals", "").status == 429
		if refused {
			break
		}
	}
	if !refused {
		t.Error("a device may ask as often as it likes")
	}
	for range deviceAtOnce {
		if !h.devices.Enter(p.id, deviceAtOnce) {
			t.Fatal("there is no room for requests under way")
		}
	}
	if a := p.ask("GET", "/api/signals", ""); a.status != 429 {
		t.Errorf("one more request under way than there may be: %d", a.status)
	}
	if a := other.ask("GET", "/api/signals", ""); a.status != 200 {
		t.Errorf("another device: %d", a.status)
	}
}
