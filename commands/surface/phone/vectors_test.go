package phone_test

import (
	"encoding/base64"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/evanw/esbuild/pkg/api"

	"mailroom/commands/surface/bundletest"
)

// sealing makes the app's own encryption available to the page under the name `sealing`.
func (tb *tab) sealing() {
	tb.t.Helper()
	script := bundletest.Build(tb.t, "app/seal.js", api.BuildOptions{GlobalName: "sealing"})
	eval[chromedp.Void](tb, `%s;window.sealing = sealing;undefined`, script)
}

// TestVectorsToPage checks that the page can decrypt what Go encrypts, for one or several devices, short and long,
// and that it decrypts nothing if any byte is changed.
func TestVectorsToPage(t *testing.T) {
	t.Parallel()
	tb, d := newMachine(t).pair()
	tb.sealing()
	others := []string{newAsked(t).identity.Recipient().String(), newAsked(t).identity.Recipient().String()}
	long := make([]byte, 3*64<<10)
	for i := range long {
		long[i] = 'a' + byte(i%26)
	}
	for name, recipients := range map[string][]string{
		"alone": {d.Recipient}, "first": {d.Recipient, others[0]}, "last": {others[0], others[1], d.Recipient},
	} {
		for _, message := range []string{"hello", "Grüße 🎉", string(long)} {
			sealed := seal(t, said{"v": 1, "kind": "alert", "id": "a-1", "from": "builder", "message": message}, recipients...)
			got := eval[string](tb, `sealing.open({ id: "a-1", kind: "alert", encrypted: true, ciphertext: %s }).then((what) => what.message)`, js(sealed))
			if got != message {
				t.Errorf("%s: the page reads %.40q instead of %.40q", name, got, message)
			}
		}
	}
	sealed := seal(t, said{"v": 1, "kind": "alert", "id": "a-1", "from": "builder", "message": "hello"}, others[0], d.Recipient)
	read := eval[[]int](tb, `(async () => {
		const read = [];
		for (let at = 0; at < atob(%[1]s).length; at++) {
			const bytes = sealing.unbase64(%[1]s);
			bytes[at] ^= 1;
			await sealing.open({ id: "a-1", kind: "alert", encrypted: true, ciphertext: sealing.base64(bytes) }).then(() => read.push(at), () => {});
		}
		return read;
	})()`, js(sealed))
	if len(read) > 0 {
		t.Errorf("with another byte at %v it is still read", read)
	}
	stranger := seal(t, said{"v": 1, "kind": "alert", "id": "a-1", "from": "builder", "message": "hello"}, others...)
	if got := eval[string](tb, `sealing.open({ id: "a-1", kind: "alert", encrypted: true, ciphertext: %s }).then(() => "read", () => "")`, js(stranger)); got != "" {
		t.Error("the page reads what is sealed for others")
	}
}

// TestVectorsFromPage checks that Go can decrypt what the page encrypts, and that its MAC is the one that the asker
// expects. Another asker cannot decrypt it, and another key does not fit the MAC.
func TestVectorsFromPage(t *testing.T) {
	t.Parallel()
	tb, _ := newMachine(t).pair()
	tb.sealing()
	q := newAsked(t)
	q.id = "q-1"
	for answer, want := range map[string]string{
		`{"option":0}`: "option:0", `{"option":4}`: "option:4", `{"text":"Grüße\n🎉"}`: "text:Grüße\n🎉", `{"text":"option:1"}`: "text:option:1",
		`{"option":1,"text":"but\nlater"}`: "option:1\ntext:but\nlater",
	} {
		question := js(said{"reply": q.identity.Recipient().String(), "mac": base64.RawURLEncoding.EncodeToString(q.mac)})
		sealed := eval[string](tb, `sealing.sealAnswer({ id: "q-1", encrypted: true }, %s, %s).then((body) => body.ciphertext)`, question, answer)
		if got, err := q.open(sealed); err != nil || got != want {
			t.Errorf("%s is read as %q: %v", answer, got, err)
		}
		forged := q
		forged.mac = newAsked(t).mac
		if got, err := forged.open(sealed); err == nil {
			t.Errorf("%s has a MAC that fits another key: %q", answer, got)
		}
		if _, err := newAsked(t).open(sealed); err == nil {
			t.Errorf("%s is read by another asker", answer)
		}
	}
}
