package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"filippo.io/age"

	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/router"
)

// phone is a device for scripts, which does the same as the app without the app's HTTP:
//
//	phone NAME pair URL            pairs it, with the address in a QR code
//	phone NAME subscribe ENDPOINT  allows pushes to it
//	phone NAME read ID             prints the content of a question or an alert
//	phone NAME answer ID N|TEXT    answers a question; N: TEXT gives both
//
// Its data is in the file NAME.phone, as on a phone.
func phone() {
	if err := runPhone(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// phone runs the phone with a name on the office's database.
func (o *office) phone(args ...string) string {
	o.t.Helper()
	cmd := exec.Command("phone", args...)
	cmd.Env, cmd.Dir = append(os.Environ(), "MAILROOM_DB="+o.db), cmp.Or(o.phones, o.folder)
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("phone %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// paired pairs a phone, and returns its device and its fingerprint.
func (o *office) paired(name string) known {
	o.t.Helper()
	o.run("setting", "set", "signal.url", "http://127.0.0.1:9") // where nothing answers
	url, _ := o.run("signal", "pair")["url"].(string)
	var k known
	if err := json.Unmarshal([]byte(o.phone(name, "pair", url)), &k); err != nil {
		o.t.Fatal(err)
	}
	return k
}

// pocket is the stored data of a phone.
type pocket struct{ Device, Identity string }

func runPhone(name, verb string, args []string) error {
	ctx := context.Background()
	r, err := router.Open(ctx, ledger.Options{Path: cmp.Or(os.Getenv("DATABASE"), os.Getenv("MAILROOM_DB"))})
	if err != nil {
		return err
	}
	defer r.Close()
	if verb == "pair" {
		return pairPhone(ctx, r, name, args[0])
	}
	var kept pocket
	text, err := os.ReadFile(name + ".phone")
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		return err
	}
	switch verb {
	case "subscribe":
		// A point of P-256 and 16 bytes, as in a browser. Source: RFC 8291, appendix A.
		return questions.Subscribe(ctx, r.Ledger, kept.Device, questions.Subscription{
			Endpoint: args[0], Auth: "BTBZMqHH6r4Tts7J_aSIgg",
			P256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
		})
	case "read":
		content, err := kept.read(ctx, r, args[0])
		if err == nil {
			fmt.Println(content)
		}
		return err
	case "answer":
		return kept.answer(ctx, r, args[0], args[1])
	}
	return errors.New("usage: phone NAME pair|subscribe|read|answer ...")
}

func pairPhone(ctx context.Context, r *delivery.Engine, name, url string) error {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	_, code, _ := strings.Cut(url, "#c=")
	d, _, err := questions.Pair(ctx, r.Ledger,
		questions.PairRequest{Code: code, Name: name, Recipient: identity.Recipient().String()})
	if err != nil {
		return err
	}
	text, err := json.Marshal(pocket{d.ID, identity.String()})
	if err != nil {
		return err
	}
	fmt.Printf(`{"device":%q,"fingerprint":%q}`+"\n", d.ID, d.Fingerprint)
	return os.WriteFile(name+".phone", text, 0o600)
}

// read returns the content of a question or an alert, in JSON.
func (p *pocket) read(ctx context.Context, r *delivery.Engine, id string) (string, error) {
	body, encrypted := "", false
	if strings.HasPrefix(id, "a-") {
		a, err := questions.GetAlert(ctx, r.Ledger, id)
		if err != nil {
			return "", err
		}
		body, encrypted = a.Body, a.Encrypted
	} else {
		q, err := questions.Get(ctx, r.Ledger, id)
		if err != nil {
			return "", err
		}
		body, encrypted = q.Body, q.Encrypted
	}
	if !encrypted {
		return body, nil
	}
	identity, err := age.ParseX25519Identity(p.Identity)
	if err != nil {
		return "", err
	}
	raw, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return "", err
	}
	plain, err := age.Decrypt(bytes.NewReader(raw), identity)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(plain)
	return string(text), err
}

// answer answers a question as the app does: a number is the index of an option, and a text after it and ": " is the
// comment.
func (p *pocket) answer(ctx context.Context, r *delivery.Engine, id, what string) error {
	said := map[string]any{"text": what}
	signed := "text:" + what
	option, comment, both := strings.Cut(what, ": ")
	if n, err := strconv.Atoi(option); err == nil {
		said, signed = map[string]any{"option": n}, "option:"+option
		if both {
			said["text"], signed = comment, signed+"\ntext:"+comment
		}
	}
	content, err := p.read(ctx, r, id)
	if err != nil {
		return err
	}
	var question struct{ Reply, Mac string }
	if err := json.Unmarshal([]byte(content), &question); err != nil {
		return err
	}
	if question.Reply == "" {
		text, _ := json.Marshal(said)
		_, err = questions.Answer(ctx, r.Ledger, id, p.Device, string(text))
		return err
	}
	key, err := base64.RawURLEncoding.DecodeString(question.Mac)
	if err != nil {
		return err
	}
	said["v"], said["id"], said["time"] = 1, id, r.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "mailroom answer v1\n%s\n%s\n%s", id, signed, said["time"])
	said["mac"] = base64.RawURLEncoding.EncodeToString(h.Sum(nil))
	to, err := age.ParseX25519Recipient(question.Reply)
	if err != nil {
		return err
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, to)
	if err != nil {
		return err
	}
	if err := errors.Join(json.NewEncoder(w).Encode(said), w.Close()); err != nil {
		return err
	}
	_, err = questions.Answer(ctx, r.Ledger, id, p.Device, base64.StdEncoding.EncodeToString(sealed.Bytes()))
	return err
}
