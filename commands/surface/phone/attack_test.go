package phone

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// everything returns all routes, each with a valid body where there is one that is always valid.
func (h *home) everything(q string) map[string]string {
	_, recipient := h.newRecipient()
	return map[string]string{
		"GET /": "", "GET /pair": "", "POST /api/pair": pairBody("ABCD-EFGH-JKMN", "x", recipient), "GET /api/device": "", "DELETE /api/device": "",
		"PUT /api/subscription": subscription("https://fcm.googleapis.com/fcm/send/abc"), "DELETE /api/subscription": "", "GET /api/signals": "",
		"GET /api/signals/" + q: "", "POST /api/questions/" + q + "/answer": `{"option":0}`, "POST /api/once/" + q + "/0/" + strings.Repeat("0", 32): "",
		"GET /nowhere": "", "GET /api": "",
	}
}

// rows returns the data that a request could have changed.
func (h *home) rows() string {
	h.t.Helper()
	return strings.Join(h.cells(`SELECT (SELECT count(*) FROM signal_devices) || ' ' || (SELECT coalesce(group_concat(state || push_host), '') FROM signal_devices) || ' ' ||
		(SELECT coalesce(group_concat(status || answer), '') FROM signal_questions) || ' ' || (SELECT count(*) FROM command_trace) || ' ' || (SELECT count(*) FROM message_trace)`), "")
}

// TestHosts checks that foreign host names are refused in any request: a page whose name was rebound to this address
// sends its own name.
func TestHosts(t *testing.T) {
	t.Parallel()
	here, there := newHome(t, Options{}, nil), newHome(t, Options{Address: "0.0.0.0:0"}, nil)
	there.Address = "http://127.0.0.1" + there.Address[strings.LastIndexByte(there.Address, ':'):]
	own := strings.TrimPrefix(here.Address, "http://")
	named := []string{"phone.example", "PHONE.example", "phone.example:443", "phone.example:9465"}
	local := []string{own, "127.0.0.1", "localhost", "LOCALHOST:1", "[::1]", "[::1]:80", "127.8.8.8"}
	foreign := []string{
		"evil.example", "phone.example.evil.example", "evilphone.example", "phone.example.", "phone.example@evil.example", "192.0.2.1", "0.0.0.0", "[::]", "localhost.evil.example",
		"phone.example:x", "phone.example:99999", "127.0.0.1.nip.io", "*", "phone.example,evil.example",
	}
	check := func(h *home, hosts []string, want int) {
		t.Helper()
		for _, host := range hosts {
			a := h.ask("GET", "/", "", func(r *http.Request) { r.Host = host })
			if a.status != want || want == 403 && (a.code() != "permission_denied" || !strings.Contains(a.read("hint"), "signal.url")) {
				t.Errorf("as %s: %d %s; want %d", host, a.status, a.body, want)
			}
		}
	}
	check(here, local, 200)
	check(here, slices.Concat(named, foreign), 403)
	check(there, slices.Concat(local, named, foreign), 403)
	if !strings.Contains(there.logged(), "signal.url") || !strings.Contains(there.logged(), "not encrypted") || strings.Contains(here.logged(), "WARN") {
		t.Errorf("the logs are %s and %s", here.logged(), there.logged())
	}
	for _, h := range []*home{here, there} {
		if _, err := h.ledger.SetSetting(t.Context(), "signal.url", "https://phone.example:9465"); err != nil {
			t.Fatal(err)
		}
		check(h, named, 200)
		check(h, foreign, 403)
	}
	check(here, local, 200)
	check(there, local, 403)
	p := here.phone("a")
	q := here.question(`{"options":["a"]}`, false, time.Hour)
	before := here.rows()
	for route, body := range here.everything(q) {
		method, path, _ := strings.Cut(route, " ")
		if a := here.ask(method, path, body, both(bearer(p.token), func(r *http.Request) { r.Host = "evil.example" })); a.status != 403 {
			t.Errorf("%s as evil.example: %d %s", route, a.status, a.body)
		}
	}
	if after := here.rows(); after != before {
		t.Errorf("they have changed %s to %s", before, after)
	}
}

// TestOrigins checks that pages of other origins change nothing, even with a token.
func TestOrigins(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	p := h.phone("a")
	q := h.question(`{"options":["a"]}`, false, time.Hour)
	before := h.rows()
	own := h.Address
	for name, change := range map[string]func(*http.Request){
		"cross-site": set("Sec-Fetch-Site", "cross-site"), "same-site": set("Sec-Fetch-Site", "same-site"), "unknown": set("Sec-Fetch-Site", "x"),
		"its own origin, said to be cross-site": set("Sec-Fetch-Site", "cross-site", "Origin", own),
		"another origin":                        set("Origin", "https://evil.example"), "none": set("Origin", "null"), "another port": set("Origin", "http://127.0.0.1:1"),
		"a name like it": set("Origin", own+".evil.example"), "no URL": set("Origin", "x"),
	} {
		for route, body := range h.everything(q) {
			method, path, _ := strings.Cut(route, " ")
			if method == "GET" {
				continue
			}
			if a := h.ask(method, path, body, both(bearer(p.token), change)); a.status != 403 || a.code() != "permission_denied" {
				t.Errorf("%s, %s: %d %s", name, route, a.status, a.body)
			}
		}
		if a := h.ask("OPTIONS", "/api/device", "", both(change, set("Access-Control-Request-Method", "DELETE", "Access-Control-Request-Headers", "authorization"))); a.status < 400 {
			t.Errorf("%s: a preflight is answered with %d", name, a.status)
		}
	}
	if after := h.rows(); after != before {
		t.Errorf("they have changed %s to %s", before, after)
	}
	answers := []func(*http.Request){set("Sec-Fetch-Site", "same-origin", "Origin", own), set("Sec-Fetch-Site", "none"), set("Origin", own), nil}
	for i, change := range answers {
		if a := h.ask("PUT", "/api/subscription", subscription("https://fcm.googleapis.com/x"), both(bearer(p.token), change)); a.status != 200 {
			t.Errorf("the page itself, %d: %d %s", i, a.status, a.body)
		}
	}
}

// TestTokens checks that a request without a valid token gets one uniform error and changes nothing.
func TestTokens(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	p, other, gone := h.phone("a"), h.phone("b"), h.phone("c")
	q := h.question(`{"options":["a"]}`, false, time.Hour)
	if _, err := questions.RevokeDevice(t.Context(), h.ledger, gone.id); err != nil {
		t.Fatal(err)
	}
	agents, _, err := agents.IssueToken(t.Context(), h.ledger, "builder", true, 0)
	if err != nil {
		t.Fatal(err)
	}
	last := map[bool]string{true: "B", false: "A"}[strings.HasSuffix(p.token, "A")]
	before := h.rows()
	for name, change := range map[string]func(*http.Request){
		"none": nil, "two": both(set("Authorization", "Bearer "+p.token), set("Authorization", "Bearer "+p.token)), "basic": set("Authorization", "Basic "+p.token),
		"no scheme": set("Authorization", p.token), "empty": set("Authorization", ""), "another character": bearer(p.token[:len(p.token)-1] + last),
		"one less": bearer(p.token[:len(p.token)-1]), "one more": bearer(p.token + "A"), "case": bearer(strings.ToUpper(p.token)), "two in one": bearer(p.token + "," + other.token),
		"halves": bearer(p.token[:30] + other.token[30:]), "the prefix": bearer("mailroom_device_"), "long": bearer(p.token + strings.Repeat("A", 8000)), "a quote": bearer("mailroom_device_' OR 1=1 --"),
		"no text": bearer("mailroom_device_\xff\xfe"), "revoked": bearer(gone.token), "an administrator's": bearer(agents), "the id": bearer(p.id), "in a cookie": set("Cookie", "Authorization=Bearer "+p.token),
		"of a proxy": set("Proxy-Authorization", "Bearer "+p.token, "X-Forwarded-For", "127.0.0.1"),
	} {
		for route, body := range h.everything(q) {
			method, path, _ := strings.Cut(route, " ")
			if !strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/api/pair") || strings.HasPrefix(path, "/api/once") {
				continue
			}
			for _, path := range []string{path, path + "?token=" + p.token + "&access_token=" + p.token} {
				a := h.ask(method, path, body, change)
				if a.status != 401 || a.code() != "unauthenticated" || a.header.Get("WWW-Authenticate") == "" || a.read("hint") == "" || strings.Contains(a.body, p.token[20:]) {
					t.Errorf("%s, %s %s: %d %s", name, method, path, a.status, a.body)
				}
			}
		}
	}
	if after := h.rows(); after != before {
		t.Errorf("they have changed %s to %s", before, after)
	}
}

// TestDeviceThatWaits checks that a device without approval can read its own state, subscribe and unpair, but can
// neither see nor answer questions.
func TestDeviceThatWaits(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	p := h.waits("a")
	q, alert := h.question(`{"options":["a"]}`, false, time.Hour), h.alert(`{"message":"x"}`, false)
	for route, body := range h.everything(q) {
		method, path, _ := strings.Cut(route, " ")
		want := 403
		switch {
		case !strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/api/pair") || strings.HasPrefix(path, "/api/once"), route == "DELETE /api/device":
			continue
		case path == "/api/device" || path == "/api/subscription":
			want = 200
		}
		a := p.ask(method, path, body)
		if a.status != want || want == 403 && (a.code() != "permission_denied" || a.read("state") != "waiting" || strings.Contains(a.body, "options")) {
			t.Errorf("%s: %d %s; want %d", route, a.status, a.body, want)
		}
	}
	if a := p.ask("GET", "/api/signals/"+alert, ""); a.status != 403 {
		t.Errorf("an alert: %d %s", a.status, a.body)
	}
	if a := p.ask("DELETE", "/api/device", ""); a.status != 200 {
		t.Errorf("going: %d %s", a.status, a.body)
	}
}

// TestBeforeAndAfter checks that a device can see what was encrypted after its approval, but not what was encrypted
// before. After its revocation, it sees nothing, and its answers are refused.
func TestBeforeAndAfter(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	old, late := h.phone("old"), h.waits("late")
	before := h.question("secret", true, time.Hour, old)
	clear := h.question(`{"question":"open"}`, false, time.Hour)
	h.step(time.Second)
	if _, err := person.Approve(t.Context(), h.ledger, questions.Fingerprint(late.to)); err != nil {
		t.Fatal(err)
	}
	h.step(time.Second)
	after := h.question("secret", true, time.Hour, old, late)
	for id, want := range map[string][2]int{before: {200, 404}, after: {200, 200}, clear: {200, 200}} {
		for i, p := range []*phone{old, late} {
			if a := p.ask("GET", "/api/signals/"+id, ""); a.status != want[i] {
				t.Errorf("device %d, %s: %d %s; want %d", i, id, a.status, a.body, want[i])
			}
			if a := p.ask("GET", "/api/signals", ""); strings.Contains(a.body, id) != (want[i] == 200) {
				t.Errorf("device %d: %s", i, a.body)
			}
		}
	}
	if a := late.ask("POST", "/api/questions/"+before+"/answer", `{"ciphertext":"`+h.seal("x", old)+`"}`); a.status != 404 {
		t.Errorf("answering what is for others: %d %s", a.status, a.body)
	}
	if _, err := questions.RevokeDevice(t.Context(), h.ledger, old.id); err != nil {
		t.Fatal(err)
	}
	for _, route := range []string{"GET /api/signals", "GET /api/signals/" + after, "GET /api/device", "POST /api/questions/" + clear + "/answer"} {
		method, path, _ := strings.Cut(route, " ")
		if a := old.ask(method, path, `{"text":"x"}`); a.status != 401 {
			t.Errorf("%s when revoked: %d %s", route, a.status, a.body)
		}
	}
	if q, err := questions.Get(t.Context(), h.ledger, clear); err != nil || q.Status != questions.Pending {
		t.Errorf("the question is %+v, %v", q, err)
	}
}

// TestRevived checks that an unpaired phone that the table or a restored backup makes active again waits for approval
// like a new one, and so does one with another key than the approved one.
func TestRevived(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	p, kept := h.phone("lost"), h.phone("kept")
	clear := h.question(`{"question":"open"}`, false, time.Hour)
	hash := h.hidden(`SELECT token_hash FROM signal_subscriptions WHERE device_id = '` + p.id + `'`)
	if a := p.ask("DELETE", "/api/device", ""); a.status != 200 || a.read("state") != "revoked" {
		t.Fatalf("unpairing: %d %s", a.status, a.body)
	}
	pins, err := os.ReadDir(h.ledger.FilePrefix() + "-signal/devices")
	if err != nil || len(pins) != 1 || pins[0].Name() != kept.id {
		t.Errorf("pinned are %v, %v", pins, err)
	}
	h.hidden(`INSERT INTO signal_subscriptions (device_id, token_hash) VALUES ('` + p.id + `', '` + hash + `') RETURNING device_id`)
	h.hidden(`UPDATE signal_devices SET state = 'active' WHERE device_id = '` + p.id + `' RETURNING device_id`)
	h.hidden(`UPDATE signal_devices SET recipient = '` + p.to + `' WHERE device_id = '` + kept.id + `' RETURNING device_id`)
	for _, d := range []*phone{p, kept} {
		for _, route := range []string{"GET /api/signals", "GET /api/signals/" + clear, "POST /api/questions/" + clear + "/answer"} {
			method, path, _ := strings.Cut(route, " ")
			if a := d.ask(method, path, `{"text":"x"}`); a.status != 403 || a.read("state") != "waiting" {
				t.Errorf("%s: %d %s", route, a.status, a.body)
			}
		}
		if a := d.ask("GET", "/api/device", ""); a.status != 200 || a.read("state") != "waiting" {
			t.Errorf("it is told %d %s", a.status, a.body)
		}
	}
	if q, err := questions.Get(t.Context(), h.ledger, clear); err != nil || q.Status != questions.Pending {
		t.Errorf("the question is %+v, %v", q, err)
	}
}

// TestNothingLeaks checks that questions, answers, codes and tokens appear in no log, and encrypted or secret data in
// no file.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	code := h.code()
	p := &phone{h: h}
	p.identity, p.to = h.newRecipient()
	p.token = "none yet"
	paired := h.ask("POST", "/api/pair", pairBody(code, "x", p.to), nil)
	p.id, p.token = paired.read("device"), paired.read("token")
	if _, err := person.Approve(t.Context(), h.ledger, questions.Fingerprint(p.to)); err != nil {
		t.Fatal(err)
	}
	sealed := h.question(`{"question":"canaryquestion"}`, true, time.Hour, p)
	clear := h.question(`{"question":"canaryclear"}`, false, time.Hour, p)
	for _, id := range []string{sealed, clear, "canarypath"} {
		for _, body := range []string{`{"text":"canaryanswer"`, `{"canarykey":"canaryanswer"}`, `{"option":"canaryanswer"}`, `{"ciphertext":"canaryanswer"}`, `{"text":"canaryanswer","option":1}`, `canaryanswer`} {
			p.ask("POST", "/api/questions/"+id+"/answer", body)
			h.ask("POST", "/api/questions/"+id+"/answer", body, bearer("canarytoken"))
			p.ask("PUT", "/api/subscription", body)
			h.ask("POST", "/api/pair", body, nil)
		}
		h.ask("POST", "/api/once/"+id+"/1/canarybutton", "", nil)
		p.ask("GET", "/api/signals/"+id+"?x=canaryquery", "")
	}
	if a := p.ask("POST", "/api/questions/"+sealed+"/answer", `{"ciphertext":"`+h.seal("canaryanswer", p)+`"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	h.Close()
	if err := h.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(h.folder + "/*")
	if err != nil || len(files) == 0 && h.path == filepath.Join(h.folder, "mailroom.db") {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "-signal") {
			continue // the folder of keys
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"canaryquestion", "canaryanswer", "canarykey", "canarytoken", "canarybutton", "canaryquery", code, strings.ReplaceAll(code, "-", ""), p.token, p.token[20:]} {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s holds %s", filepath.Base(file), secret)
			}
		}
	}
	for _, secret := range []string{"canary", code, p.token} {
		if strings.Contains(h.logged(), secret) {
			t.Errorf("the log has %s: %s", secret, h.logged())
		}
	}
}
