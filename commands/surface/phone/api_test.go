package phone

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
)

// TestEveryRoute uses all routes as a phone does: pair, be approved, subscribe, read what is open, answer, unpair.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	p := h.waits("Ann's phone")
	if p.fingerprint != questions.Fingerprint(p.to) {
		t.Errorf("fingerprint %s; want that of %s", p.fingerprint, p.to)
	}
	key, err := questions.VAPIDPublicKey(t.Context(), h.ledger)
	if err != nil {
		t.Fatal(err)
	}
	device := func(state, push string) {
		t.Helper()
		want := fmt.Sprintf(`{"device":%q,"name":"Ann's phone","state":%q,"fingerprint":%q,"vapidKey":%q,"push":%q,"project":%q}`, p.id, state, p.fingerprint, key, push,
			commands.ProjectName(h.path))
		if a := p.ask("GET", "/api/device", ""); a.status != 200 || strings.TrimSpace(a.body) != want {
			t.Errorf("the device is %d %s; want %s", a.status, a.body, want)
		}
	}
	device("waiting", "none")
	if _, err := person.Approve(t.Context(), h.ledger, questions.Fingerprint(p.to)); err != nil {
		t.Fatal(err)
	}
	endpoint := "https://updates.push.services.mozilla.com/wpush/v2/abc"
	if a := p.ask("PUT", "/api/subscription", subscription(endpoint)); a.status != 200 || a.read("push") != "ok" {
		t.Errorf("subscribing: %d %s", a.status, a.body)
	}
	device("active", "ok")
	clear := h.question(`{"v":1,"kind":"question","question":"Go on?","options":["Yes","No"]}`, false, time.Hour, p)
	sealed := h.question(`secret`, true, time.Hour, p)
	alert := h.alert(`{"v":1,"kind":"alert","message":"done"}`, false, p)
	secret := h.alert(`hush`, true, p)
	var list struct{ Questions, Alerts []item }
	if a := p.ask("GET", "/api/signals", ""); a.status != 200 || json.Unmarshal([]byte(a.body), &list) != nil {
		t.Fatalf("signals: %d %s", a.status, a.body)
	}
	seen := map[string]item{}
	for _, i := range slices.Concat(list.Questions, list.Alerts) {
		seen[i.ID] = i
		var alone item
		if a := p.ask("GET", "/api/signals/"+i.ID, ""); a.status != 200 || json.Unmarshal([]byte(a.body), &alone) != nil || fmt.Sprint(alone) != fmt.Sprint(i) {
			t.Errorf("%s alone is %d %s; want %v", i.ID, a.status, a.body, i)
		}
	}
	if len(seen) != 4 || seen[clear].Status != "pending" || seen[clear].ExpiresAt == "" || !strings.Contains(string(seen[clear].Text), "Go on?") ||
		seen[clear].Encrypted || seen[clear].Kind != "question" || seen[alert].Kind != "alert" || seen[alert].CreatedAt == "" || !strings.Contains(string(seen[alert].Text), "done") {
		t.Errorf("signals: %+v", seen)
	}
	if p.open(seen[sealed].Ciphertext) != "secret" || p.open(seen[secret].Ciphertext) != "hush" || !seen[sealed].Encrypted || len(seen[sealed].Text) > 0 {
		t.Errorf("signals: %+v", seen)
	}
	for id, body := range map[string]string{clear: `{"option":1}`, sealed: `{"ciphertext":"` + h.seal("yes", p) + `"}`} {
		if a := p.ask("POST", "/api/questions/"+id+"/answer", body); a.status != 200 || strings.TrimSpace(a.body) != `{"status":"answered"}` {
			t.Errorf("answering %s: %d %s", id, a.status, a.body)
		}
		if a := p.ask("GET", "/api/signals/"+id, ""); a.status != 200 || a.read("status") != "answered" {
			t.Errorf("%s afterwards: %d %s", id, a.status, a.body)
		}
	}
	if q, err := questions.Get(t.Context(), h.ledger, clear); err != nil || q.Answer != `{"option":1}` || q.AnsweredBy != p.id {
		t.Errorf("the answer is %+v, %v", q, err)
	}
	if q, err := questions.Get(t.Context(), h.ledger, sealed); err != nil || p.open(q.Answer) != "yes" {
		t.Errorf("the sealed answer is %+v, %v", q, err)
	}
	if a := p.ask("DELETE", "/api/subscription", ""); a.status != 200 || a.read("push") != "none" {
		t.Errorf("unsubscribing: %d %s", a.status, a.body)
	}
	device("active", "none")
	if a := p.ask("DELETE", "/api/device", ""); a.status != 200 || a.read("state") != "revoked" {
		t.Errorf("unpairing: %d %s", a.status, a.body)
	}
	if a := p.ask("GET", "/api/device", ""); a.status != 401 {
		t.Errorf("after unpairing: %d %s", a.status, a.body)
	}
	spans := h.cells(`SELECT name || ' ' || kind || ' ' || status || ' ' || caller FROM command_trace WHERE name LIKE 'phone %' ORDER BY id`)
	me := "device:" + p.id
	if want := []string{
		"phone pair SERVER OK device:unknown", "phone subscribe SERVER OK " + me, "phone answer SERVER OK " + me, "phone answer SERVER OK " + me,
		"phone unsubscribe SERVER OK " + me, "phone unpair SERVER OK " + me,
	}; !slices.Equal(spans, want) {
		t.Errorf("spans %q; want %q", spans, want)
	}
}

// subscription returns a subscription as sent by a browser.
func subscription(endpoint string) string {
	key, _ := ecdh.P256().GenerateKey(rand.Reader)
	return subscriptionWith(endpoint, key.PublicKey().Bytes(), make([]byte, 16))
}

func subscriptionWith(endpoint string, p256dh, auth []byte) string {
	body, _ := json.Marshal(map[string]any{"endpoint": endpoint, "expirationTime": nil, "keys": map[string]string{
		"p256dh": base64.RawURLEncoding.EncodeToString(p256dh), "auth": base64.RawURLEncoding.EncodeToString(auth),
	}})
	return string(body)
}

// TestEndpointsOfSubscriptions checks that endpoints must be those of push services, over https and on their port,
// and that keys must be valid.
func TestEndpointsOfSubscriptions(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	p := h.phone("a")
	for _, endpoint := range []string{
		"", "/wpush", "updates.push.services.mozilla.com", "http://updates.push.services.mozilla.com/x", "ftp://updates.push.services.mozilla.com/x",
		"file:///etc/passwd", "https://", "https:///x", "https://127.0.0.1/x", "https://localhost/x", "https://[::1]/x", "https://169.254.169.254/latest/meta-data",
		"https://10.0.0.1/x", "https://0x7f000001/x", "https://2130706433/x", "https://evil.example/x", "https://updates.push.services.mozilla.com.evil.example/x",
		"https://evil.example#.push.services.mozilla.com/x", "https://user:pass@updates.push.services.mozilla.com/x", "https://updates.push.services.mozilla.com@evil.example/x",
		"https://updates.push.services.mozilla.com:8443/x", "https://updates.push.services.mozilla.com:22/x", "https://xfcm.googleapis.com/x", "https://fcm.googleapis.com\\@evil.example/x",
		"https://push.apple.com/x", "https://updates.push.services.mozilla.com/x#y", "https://updates.push.services.mozilla.com/\r\nHost: evil.example", "javascript:alert(1)",
		"https://fcm.googleapis.com/" + strings.Repeat("x", 3000), "https://fcm.googleapis.com%2f@evil.example/x", "https://%66cm.googleapis.com.evil.example/",
	} {
		a := p.ask("PUT", "/api/subscription", subscription(endpoint))
		if a.status != 400 || a.code() != "invalid_params" {
			t.Errorf("%q: %d %s", endpoint, a.status, a.body)
		}
	}
	good, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, auth := good.PublicKey().Bytes(), make([]byte, 16)
	off := slices.Clone(point)
	off[64] ^= 1
	const endpoint = "https://fcm.googleapis.com/fcm/send/abc"
	for name, body := range map[string]string{
		"off the curve": subscriptionWith(endpoint, off, auth), "compressed": subscriptionWith(endpoint, append([]byte{2}, point[1:33]...), auth),
		"infinity": subscriptionWith(endpoint, []byte{0}, auth), "no point": subscriptionWith(endpoint, nil, auth), "long point": subscriptionWith(endpoint, append(slices.Clone(point), 0), auth),
		"short auth": subscriptionWith(endpoint, point, auth[:15]), "long auth": subscriptionWith(endpoint, point, make([]byte, 17)), "no auth": subscriptionWith(endpoint, point, nil),
		"no base64": `{"endpoint":"` + endpoint + `","keys":{"p256dh":"??","auth":"??"}}`, "no keys": `{"endpoint":"` + endpoint + `"}`,
	} {
		if a := p.ask("PUT", "/api/subscription", body); a.status != 400 || a.code() != "invalid_params" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := p.ask("GET", "/api/device", ""); a.read("push") != "none" {
		t.Errorf("one of them was taken: %s", a.body)
	}
	for _, endpoint := range []string{
		endpoint, "https://web.push.apple.com/QGx", "https://wns2-by3p.notify.windows.com/w/?token=abc",
	} {
		if a := p.ask("PUT", "/api/subscription", subscription(endpoint)); a.status != 200 {
			t.Errorf("%s: %d %s", endpoint, a.status, a.body)
		}
	}
	if _, err := h.ledger.SetSetting(t.Context(), "signal.push_hosts", "push.example:8443"); err != nil {
		t.Fatal(err)
	}
	for endpoint, want := range map[string]int{"https://push.example:8443/x": 200, "https://push.example/x": 400, "http://push.example:8443/x": 400} {
		if a := p.ask("PUT", "/api/subscription", subscription(endpoint)); a.status != want {
			t.Errorf("%s, added by hand: %d %s", endpoint, a.status, a.body)
		}
	}
	padded := strings.ReplaceAll(subscriptionWith(endpoint, point, auth), `"auth":"AAAAAAAAAAAAAAAAAAAAAA"`, `"auth":"AAAAAAAAAAAAAAAAAAAAAA=="`)
	if a := p.ask("PUT", "/api/subscription", padded); a.status != 200 {
		t.Errorf("keys with padding: %d %s", a.status, a.body)
	}
}

// TestAnswersThatDoNotFit checks that an answer that does not fit its question is refused, and that the question
// stays open.
func TestAnswersThatDoNotFit(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	p := h.phone("a")
	sealed := h.seal("x", p)
	options := h.question(`{"question":"?","options":["a","b"]}`, false, time.Hour, p)
	free := h.question(`{"question":"?"}`, false, time.Hour, p)
	secret := h.question(`{"question":"?","options":["a","b"]}`, true, time.Hour, p)
	for id, bodies := range map[string][]string{
		options: {`{"option":2}`, `{"option":-1}`, `{"option":1.5}`, `{"option":"1"}`, `{"option":1e30}`, `{"text":"a"}`, `{"ciphertext":"` + sealed + `"}`, `{"option":null}`,
			`{"option":0,"text":" "}`, `{"option":2,"text":"a"}`, `{"option":0,"text":"` + strings.Repeat("ä", 2001) + `"}`},
		free: {`{"option":0}`, `{"option":0,"text":"a"}`, `{"text":""}`, `{"text":"` + strings.Repeat("ä", 2001) + `"}`, `{"text":7}`, `{"ciphertext":"` + sealed + `"}`},
		secret: {`{"option":0}`, `{"option":0,"text":"a"}`, `{"text":"a"}`, `{"ciphertext":""}`, `{"ciphertext":"YWJj"}`, `{"ciphertext":"` + sealed[:40] + `!"}`, `{"ciphertext":["x"]}`,
			`{"ciphertext":"` + base64.StdEncoding.EncodeToString([]byte("age-encryption.org/v1\n"+strings.Repeat("x", 30_000))) + `"}`},
	} {
		for _, body := range append(bodies, `{}`, `{"option":0,"text":"a","ciphertext":"`+sealed+`"}`, `{"option":0,"ciphertext":"`+sealed+`"}`, `[]`, `null`, `"x"`, ``) {
			if a := p.ask("POST", "/api/questions/"+id+"/answer", body); a.status != 400 && (body != "" || a.status != 415) || a.code() != "invalid_params" {
				t.Errorf("%.60s: %d %s", body, a.status, a.body)
			}
		}
		if a := p.ask("GET", "/api/signals/"+id, ""); a.read("status") != "pending" {
			t.Errorf("afterwards: %s", a.body)
		}
	}
	if a := p.ask("POST", "/api/questions/"+free+"/answer", `{"text":"`+strings.Repeat("ä", 2000)+`"}`); a.status != 200 {
		t.Errorf("the longest text: %d %s", a.status, a.body)
	}
	for _, id := range []string{"q-1", "q-01ARZ3NDEKTSV4RRFFQ69G5FAV", "a-1", "%00", "..%2f..", strings.Repeat("q", 5000)} {
		if a := p.ask("POST", "/api/questions/"+id+"/answer", `{"text":"x"}`); a.status != 404 || a.code() != "not_found" {
			t.Errorf("answering %.40s: %d %.200s", id, a.status, a.body)
		}
		if a := p.ask("GET", "/api/signals/"+id, ""); a.status != 404 || a.code() != "not_found" {
			t.Errorf("looking at %.40s: %d %.200s", id, a.status, a.body)
		}
	}
}

// TestQuestionsThatHaveEnded checks that expired and cancelled questions refuse answers with the reason.
func TestQuestionsThatHaveEnded(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	p := h.phone("a")
	const body = `{"question":"?","options":["a","b"]}`
	cancelled, expired := h.question(body, false, time.Hour, p), h.question(body, false, time.Minute, p)
	if _, err := questions.Cancel(t.Context(), h.ledger, cancelled, ""); err != nil {
		t.Fatal(err)
	}
	h.step(2 * time.Minute)
	for id, status := range map[string]string{cancelled: "cancelled", expired: "expired"} {
		for range 2 {
			a := p.ask("POST", "/api/questions/"+id+"/answer", `{"option":0}`)
			if a.status != 409 || a.code() != "conflict" || a.read("status") != status {
				t.Errorf("answering what was %s: %d %s", status, a.status, a.body)
			}
		}
		if a := p.ask("GET", "/api/signals/"+id, ""); a.status != 200 || a.read("status") != status {
			t.Errorf("looking at it: %d %s", a.status, a.body)
		}
	}
	if a := p.ask("GET", "/api/signals", ""); strings.TrimSpace(a.body) != `{"questions":[],"alerts":[]}` {
		t.Errorf("what is open: %s", a.body)
	}
}

// TestDevicesRace checks that one of many concurrent answers from several devices is accepted, and that only the
// device that gave it may repeat it.
func TestDevicesRace(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	devices := []*phone{h.phone("a"), h.phone("b"), h.phone("c")}
	type outcome struct {
		device *phone
		said   string
		answer
	}
	for round := range 5 {
		id := h.question(`{"question":"?"}`, false, time.Hour, devices...)
		give := func(p *phone, said string) outcome {
			t.Helper()
			return outcome{p, said, p.ask("POST", "/api/questions/"+id+"/answer", said)}
		}
		const each = 5
		outcomes := make(chan outcome, each*len(devices))
		for i, p := range devices {
			for n := range each {
				go func() { outcomes <- give(p, fmt.Sprintf(`{"text":"%d of %d"}`, n, i)) }()
			}
		}
		var won outcome
		for range cap(outcomes) {
			switch o := <-outcomes; {
			case o.status == 200 && won.device == nil:
				won = o
			case o.status != 409 || o.read("status") != "answered":
				t.Errorf("round %d: %d %s", round, o.status, o.body)
			}
		}
		if won.device == nil {
			t.Fatalf("round %d: nobody won", round)
		}
		for _, p := range devices {
			for said, same := range map[string]bool{won.said: true, `{"text":"other"}`: false} {
				want := map[bool]int{true: 200, false: 409}[same && p == won.device]
				if o := give(p, said); o.status != want || o.read("status") != "answered" {
					t.Errorf("round %d, again: %d %s; want %d", round, o.status, o.body, want)
				}
			}
		}
		if q, err := questions.Get(t.Context(), h.ledger, id); err != nil || q.AnsweredBy != won.device.id || q.Answer != won.said {
			t.Errorf("round %d: %+v was told that it won; the answer is %+v, %v", round, won, q, err)
		}
	}
}

// TestButtonsOfNtfy checks that a button of an ntfy notification answers once, with the token of its question and
// option.
func TestButtonsOfNtfy(t *testing.T) {
	t.Parallel()
	h := newHome(t, Options{}, nil)
	p := h.phone("a")
	const body = `{"question":"?","options":["a","b","c"]}`
	first, second, secret := h.question(body, false, time.Hour), h.question(body, false, time.Hour), h.question(body, true, time.Hour, p)
	post := func(id, option, token string) answer {
		t.Helper()
		return h.ask("POST", "/api/once/"+id+"/"+option+"/"+token, "", nil)
	}
	if a := post(first, "0", push.NtfyToken("", first, 0)); a.status != 403 {
		t.Errorf("without a topic: %d %s", a.status, a.body)
	}
	if _, err := questions.SetNtfy(t.Context(), h.ledger, questions.NtfyConfig{URL: "https://ntfy.sh/topic"}); err != nil {
		t.Fatal(err)
	}
	key := h.hidden(`SELECT p256dh FROM signal_subscriptions WHERE device_id = 'ntfy'`)
	good := push.NtfyToken(key, first, 1)
	for name, a := range map[string]answer{
		"another option": post(first, "2", good), "another question": post(second, "1", good), "no option": post(first, "x", good),
		"a larger number": post(first, "99999999999999999999", good), "one digit less": post(first, "1", good[:31]), "one digit more": post(first, "1", good+"0"),
		"another digit": post(first, "1", good[:31]+"x"), "upper case": post(first, "1", strings.ToUpper("a"+good[1:])), "another key": post(first, "1", push.NtfyToken("00", first, 1)),
		"encrypted": post(secret, "1", push.NtfyToken(key, secret, 1)), "no question": post("q-1", "1", good),
	} {
		if a.status != 403 || a.code() != "permission_denied" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := post("q-1", "1", push.NtfyToken(key, "q-1", 1)); a.status != 404 {
		t.Errorf("a question that is gone: %d %s", a.status, a.body)
	}
	if a := post(first, "1", good); a.status != 200 || a.read("status") != "answered" {
		t.Errorf("the right token: %d %s", a.status, a.body)
	}
	for _, option := range []int{0, 1} {
		if a := post(first, fmt.Sprint(option), push.NtfyToken(key, first, option)); a.status != 409 || a.read("status") != "answered" {
			t.Errorf("option %d afterwards: %d %s", option, a.status, a.body)
		}
	}
	if a := post(second, "7", push.NtfyToken(key, second, 7)); a.status != 400 {
		t.Errorf("an option that the question lacks: %d %s", a.status, a.body)
	}
	if q, err := questions.Get(t.Context(), h.ledger, first); err != nil || q.Answer != `{"option":1}` || q.AnsweredBy != "ntfy" {
		t.Errorf("the answer is %+v, %v", q, err)
	}
	if spans := h.cells(`SELECT name || ' ' || caller FROM command_trace WHERE name = 'phone once'`); !slices.Equal(spans, []string{"phone once device:ntfy"}) {
		t.Errorf("spans %q; want one", spans)
	}
}
