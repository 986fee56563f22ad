package phone_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// TestPairingByLink checks that the code in the link is filled in and removed from the address, that the fingerprint
// is that of the phone's key, and that nothing is shown before the approval.
func TestPairingByLink(t *testing.T) {
	t.Parallel()
	m := newMachineIn(t, chromium)
	code, _, err := questions.StartPairing(t.Context(), m.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	tb := m.open("/pair#c=" + code)
	tb.until(`document.getElementById("code")?.value === %s`, js(code))
	if at := eval[string](tb, `location.href`); at != m.listen.Address+"/" {
		t.Errorf("the address is %s, with the code in it", at)
	}
	tb.fill("Name of this device", "Test phone")
	tb.press("Pair this device")
	tb.sees("Approve this device")
	d := m.device()
	if d.Name != "Test phone" || d.State != "waiting" {
		t.Errorf("the device is %+v", d)
	}
	tb.sees("mailroom signal device approve " + d.Fingerprint)
	if shown := eval[string](tb, `document.querySelector(".fingerprint").innerText`); shown != d.Fingerprint {
		t.Errorf("the phone shows %s, the machine has %s", shown, d.Fingerprint)
	}
	if _, err := person.Approve(t.Context(), m.Engine.Ledger, d.Fingerprint); err != nil {
		t.Fatal(err)
	}
	tb.sees("No open questions.")
	tb.sees("Turn on notifications")
}

// TestPairingByHand checks that a code can be typed in lowercase without dashes, and that a wrong code is refused
// with a reason.
func TestPairingByHand(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	code, _, err := questions.StartPairing(t.Context(), m.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	tb := m.open("/")
	tb.fill("Code", "abcd efgh jkmn")
	tb.press("Pair this device")
	tb.until(`document.querySelector("[role=alert]:not([hidden])")?.innerText.includes("code")`)
	tb.fill("Code", strings.ToLower(strings.ReplaceAll(code, "-", "")))
	tb.press("Pair this device")
	tb.sees("Approve this device")
	tb.press("Cancel")
	tb.sees("Pair this device")
	if d := m.device(); d.State != "revoked" {
		t.Errorf("the device is %s after it was cancelled", d.State)
	}
}

// TestAnswerOption checks that an encrypted question with five options is answered in the page, and that only its
// asker can read the answer.
func TestAnswerOption(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	q := m.ask(d, true, said{"question": "Which one?", "options": []string{"one", "two", "three", "four", "five"},
		"context": "All of them are good.", "priority": "high"})
	tb.sees("Which one?")
	tb.sees("All of them are good.")
	tb.sees("High priority")
	tb.hides("Not encrypted")
	tb.press("four")
	tb.sees("You answered: four")
	if got := m.answer(q); got != "option:3" {
		t.Errorf("the answer is %s", got)
	}
	tb.press("History")
	tb.sees("You answered: four")
	tb.press("Clear the history")
	tb.sees("Nothing yet.")
}

// TestAnswerText checks that a question without options accepts a text of any characters, and that an unencrypted
// question is marked.
func TestAnswerText(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	q := m.ask(d, true, said{"question": "Say <b>something</b>"})
	tb.sees("Say <b>something</b>")
	const text = "Grüße, <i>\"you\"</i> 🎉"
	tb.fill("Your answer", text)
	tb.press("Send answer")
	tb.sees("You answered: " + text)
	if got := m.answer(q); got != "text:"+text {
		t.Errorf("the answer is %s", got)
	}
	open := m.ask(d, false, said{"question": "In clear?", "options": []string{"yes", "no"}})
	tb.sees("Not encrypted")
	tb.press("no")
	tb.sees("You answered: no")
	if got := m.answer(open); got != `{"option":1}` {
		t.Errorf("the answer is %s", got)
	}
}

// TestTypingSurvives checks that typed text and the focus remain while questions come and go.
func TestTypingSurvives(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	m.ask(d, true, said{"question": "Your words?"})
	tb.sees("Your words?")
	tb.fill("Your answer", "half of")
	other := m.ask(d, true, said{"question": "And this?", "options": []string{"a", "b"}})
	tb.sees("And this?")
	if _, err := questions.Cancel(t.Context(), m.Ledger, other.id, "builder"); err != nil {
		t.Fatal(err)
	}
	tb.sees("Canceled by the asker")
	if got := eval[string](tb, `document.activeElement.value`); got != "half of" {
		t.Errorf("the field with the focus has %q", got)
	}
}

// TestAlerts checks that alerts show their kind in words, and that unencrypted ones are marked.
func TestAlerts(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	m.alert(d, true, said{"message": "The disk is full", "alertType": "error"})
	m.alert(d, false, said{"message": "Deployed", "alertType": "success"})
	tb.press("Alerts")
	for _, words := range []string{"Error", "The disk is full", "Success", "Deployed", "Not encrypted"} {
		tb.sees(words)
	}
	tb.press("History")
	tb.sees("Error alert")
	tb.press("Clear the history")
	tb.sees("Nothing yet.")
	m.alert(d, true, said{"message": "A new one"})
	tb.press("Alerts")
	tb.sees("A new one")
	tb.hides("The disk is full")
}

// TestUnreadable checks that items that this device cannot decrypt are shown as such, and never omitted.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	stranger := newAsked(t).identity.Recipient().String()
	d.Recipient, stranger = stranger, d.Recipient
	m.ask(d, true, said{"question": "for another"})
	d.Recipient = stranger
	tb.sees("This item cannot be read on this device.")
	m.ask(d, true, said{"question": "in another's place", "id": "q-01ARZ3NDEKTSV4RRFFQ69G5FAV", "options": []string{"yes"}})
	tb.sees("the contents belong to another item")
	tb.hides("in another's place")
}

// TestOddShapes checks that an unencrypted question with arbitrary content, which anybody may write into the table,
// is shown as unreadable and does not hide other items.
func TestOddShapes(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	odd := []said{
		{"question": nil}, {"question": said{"a": 1}}, {"options": "yes"}, {"options": []any{"yes", 1}}, {"options": said{"length": 2}},
		{"from": nil}, {"context": []int{1}}, {"sessionId": 1}, {"v": 2}, {"kind": "alert"},
	}
	for _, s := range odd {
		s["text"] = "odd"
		if _, has := s["question"]; !has {
			s["question"] = "odd"
		}
		m.ask(d, false, s)
	}
	m.alert(d, false, said{"message": "Fine", "alertType": "toString", "sessionId": "sprint-3"})
	m.ask(d, false, said{"question": "Even?", "priority": 7, "expiresAt": "never", "createdAt": said{}})
	tb.sees("Even?")
	if got := eval[int](tb, `document.querySelectorAll(".unreadable").length`); got != len(odd) {
		t.Errorf("%d of %d odd questions are shown as unreadable", got, len(odd))
	}
	tb.press("Alerts")
	tb.shows("Information")
	tb.shows("Session sprint-3")
}

// TestReopened checks that a question is open again, with the reason, after the asker refused its answer.
func TestReopened(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	q := m.ask(d, true, said{"question": "Again?", "options": []string{"once", "twice"}})
	tb.sees("Again?")
	tb.press("once")
	tb.shows("You answered: once")
	over, err := questions.Get(t.Context(), m.Ledger, q.id)
	if err != nil {
		t.Fatal(err)
	}
	if err := questions.RefuseAnswer(t.Context(), m.Ledger, q.id, over.Answer, "it is forged"); err != nil {
		t.Fatal(err)
	}
	tb.sees("Your answer did not pass the asker's check. Please answer again.")
	tb.press("twice")
	tb.shows("You answered: twice")
	if got := m.answer(q); got != "option:1" {
		t.Errorf("the answer is %s", got)
	}
}

// TestLostRace checks that the second person to answer is told the outcome of the question.
func TestLostRace(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	q := m.ask(d, true, said{"question": "Who is first?", "options": []string{"me", "you"}})
	late := m.ask(d, true, said{"question": "Still?", "options": []string{"still", "no more"}})
	tb.sees("Who is first?")
	tb.sees("Still?")
	tb.refreshed()
	if _, err := questions.Answer(t.Context(), m.Ledger, q.id, d.ID, "by another"); err != nil {
		t.Fatal(err)
	}
	tb.press("me")
	tb.shows("Answered on another device before your answer arrived")
	if _, err := questions.Cancel(t.Context(), m.Ledger, late.id, "builder"); err != nil {
		t.Fatal(err)
	}
	tb.press("still")
	tb.shows("Canceled by the asker before your answer arrived")
}

// TestRevoked checks that a revoked device shows that, and starts again without its old data.
func TestRevoked(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	m.ask(d, true, said{"question": "Are you there?"})
	tb.sees("Are you there?")
	if _, err := questions.RevokeDevice(t.Context(), m.Ledger, d.ID); err != nil {
		t.Fatal(err)
	}
	tb.sees("No longer paired")
	tb.press("Remove and pair again")
	tb.shows("Pair this device")
	if left := eval[int](tb, kept); left != 0 {
		t.Errorf("%d things are kept after all was removed", left)
	}
}

// TestUnpair checks that a device that unpairs itself is revoked and keeps no data.
func TestUnpair(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, _ := m.pair()
	tb.press("Settings")
	tb.press("Unpair this device")
	tb.press("Unpair")
	tb.shows("To get a code, run mailroom signal pair")
	if d := m.device(); d.State != "revoked" {
		t.Errorf("the device is %s", d.State)
	}
	if left := eval[int](tb, kept); left != 0 {
		t.Errorf("%d things are kept after all was removed", left)
	}
}

// kept counts the data that the page stores.
const kept = `new Promise((resolve) => {
	indexedDB.open("mailroom").onsuccess = ({ target: { result: db } }) => {
		const counts = [...db.objectStoreNames].map((name) => new Promise((done) => {
			db.transaction(name).objectStore(name).count().onsuccess = (e) => done(e.target.result);
		}));
		Promise.all(counts).then((list) => { db.close(); resolve(list.reduce((a, b) => a + b)); });
	};
})`

// TestKeyIsNotExported checks that no script can export the page's stored key from the browser.
func TestKeyIsNotExported(t *testing.T) {
	t.Parallel()
	tb, _ := newMachine(t).pair()
	got := eval[string](tb, keptKey+`.then(async (key) => {
		const taken = await Promise.allSettled(["jwk", "pkcs8", "raw"].map((form) => crypto.subtle.exportKey(form, key.privateKey)));
		return [Object.keys(key).join(), key.privateKey.extractable, ...taken.map(({ status }) => status)].join(" ");
	})`)
	if got != "privateKey,recipient false rejected rejected rejected" {
		t.Errorf("the page keeps: %s", got)
	}
}

// keptKey is an expression for the page's stored key.
const keptKey = `new Promise((resolve) => {
	indexedDB.open("mailroom").onsuccess = ({ target: { result: db } }) => {
		db.transaction("kept").objectStore("kept").get("key").onsuccess = ({ target: { result: key } }) => {
			db.close();
			resolve(key);
		};
	};
})`

// TestKeyOfWebKit checks that the key is stored in wrapped form, and can be used, in a browser that reads a stored
// X25519 key back as null.
func TestKeyOfWebKit(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb := m.open(m.pairingLink())
	eval[string](tb, `(() => {
		const put = IDBObjectStore.prototype.put;
		IDBObjectStore.prototype.put = function (value, ...key) {
			return put.call(this, value?.privateKey ? { ...value, privateKey: null } : value, ...key);
		};
		return "";
	})()`)
	d := m.approves(tb)
	if got := eval[string](tb, keptKey+`.then((key) => [Object.keys(key).join(), key.wrapping.extractable, key.wrapping.algorithm.name].join(" "))`); got != "wrapping,wrapped,recipient false AES-KW" {
		t.Errorf("the page keeps: %s", got)
	}
	m.ask(d, true, said{"question": "Can you read this?"})
	tb.sees("Can you read this?")
}

// TestKeyboard checks that a question can be answered with Tab and Enter alone, and that the focus stays in its card.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tb, d := m.pair()
	q := m.ask(d, true, said{"question": "By key?", "options": []string{"first", "second"}})
	tb.sees("By key?")
	for range 12 {
		tb.do(chromedp.KeyEvent(kb.Tab))
		if eval[string](tb, `document.activeElement.innerText`) == "second" {
			break
		}
	}
	tb.do(chromedp.KeyEvent(kb.Enter))
	tb.shows("You answered: second")
	if got := m.answer(q); got != "option:1" {
		t.Errorf("the answer is %s", got)
	}
	tb.until(`document.activeElement.id === %s`, js(q.id))
	tb.until(`document.querySelector("[role=status]").innerText === "You answered: second"`)
}
