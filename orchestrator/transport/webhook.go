package transport

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mailroom/orchestrator"
)

// Webhook posts each message to the agent's URL as a CloudEvents 1.0 event, signed as in Standard Webhooks 1.0. Its
// address is an http or https URL: `--deliver webhook:URL`.
//
// A response of 200 to 299 is a delivery. 410 is orchestrator.ErrGone; 400, 413, 415 and 422 are
// orchestrator.ErrRefused. 429 and 503 with a Retry-After are an orchestrator.RetryAfter. Every other response is
// an error. Redirects are not followed and proxies are not used. A message whose process was killed during its
// delivery is posted again with the same webhook-id, by which the receiver recognizes it, and the same body (except
// for retry_count, if a retry was used up meanwhile).
//
// Without Attempt.AllowPrivate only public addresses are dialed. The check applies to the address that is dialed.
//
// The zero value is ready for use. A Webhook must not be copied after the first use.
type Webhook struct{ connections connections }

const maxAddress = 2048 // bytes of a URL

// refusals are the statuses with which a receiver rejects a message for good. Other statuses may be temporary: a
// proxy returns 404 and 405 during a deployment.
var refusals = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
	http.StatusUnprocessableEntity}

// Check accepts an absolute http or https URL and returns it in canonical form: scheme and host in lower case,
// without the default port of the scheme. The addresses of the host name are checked at every delivery. Errors are
// invalid_params.
func (*Webhook) Check(address string) (string, error) {
	refuse := func(hint, format string, args ...any) (string, error) {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, format, args...).WithHint("%s", hint)
	}
	if address == "" {
		return refuse("Write webhook:URL", "no address given")
	}
	u, err := url.Parse(address)
	if err != nil || !utf8.ValidString(address) {
		return refuse("Use the form https://example.com/hooks/builder", "the address must be a URL")
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	defaultPort := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if defaultPort == "" {
		return refuse("Begin the address with http:// or https://", "the address must be an http or https URL")
	}
	if u.User != nil {
		return refuse("The receiver can verify messages by their signature. If it requires a key, put the key into the path",
			"the address must not contain a user name or password, because Mailroom shows the address with the agent")
	}
	if u.Fragment != "" {
		return refuse("Remove # and the text after it", "the address must not contain a fragment, because fragments are never sent")
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return refuse("Use the form https://example.com/hooks/builder", "%v", err)
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return refuse("Use a port from 1 to 65535", "port %.20s is not valid", port)
		}
		if port = strconv.FormatUint(n, 10); port != defaultPort {
			host += ":" + port
		}
	}
	u.Host = host
	u.Path = cmp.Or(u.Path, "/")
	if strings.ContainsFunc(u.RawQuery, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return refuse("Percent-encode the character; write a space as %20",
			"a character after the question mark in the address must be percent-encoded")
	}
	if canonical := u.String(); len(canonical) <= maxAddress {
		return canonical, nil
	}
	return refuse("Use a shorter path", "the address must be at most %d bytes long", maxAddress)
}

// canonicalHost checks the host of a URL, without port and brackets, and returns it in the form for a URL.
func canonicalHost(host string) (string, error) {
	switch {
	case host == "":
		return "", errors.New("the address has no host")
	case strings.Contains(host, "%"):
		return "", errors.New("the address must not name a network interface (%)")
	case strings.Contains(host, ":"):
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return "", errors.New("the host is not a valid IPv6 address")
		}
		return "[" + ip.String() + "]", nil
	case !utf8.ValidString(host) || strings.ContainsFunc(host, func(r rune) bool {
		return r < utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._", r)
	}):
		return "", fmt.Errorf("%.100q is not a valid host name", host)
	}
	return host, nil
}

// MaxBatch returns 1: a receiver handles and acknowledges one message at a time.
func (*Webhook) MaxBatch() int { return 1 }

// Deliver posts the messages one after another.
func (w *Webhook) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	return oneByOne(ctx, &a, w.deliver)
}

func (w *Webhook) deliver(ctx context.Context, a *orchestrator.Attempt, m *orchestrator.Message) error {
	body, err := encodeEvent(m)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.Address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the address of %s must be a URL", a.Recipient)
	}
	if err := sign(r.Header, a, m.ID, time.Now(), body); err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/cloudevents+json")
	_, err = w.connections.do(ctx, r, &terms{
		allowPrivate: a.AllowPrivate, allow: "To allow it, run `mailroom agent add " + a.Recipient + " --allow-private`",
		gone: []int{http.StatusGone}, refused: refusals, redirected: "if the new address is correct, make it the agent's address",
		report: a.Report,
	})
	return err
}

// The form of a secret. Source: Standard Webhooks 1.0, "Signature scheme".
const (
	secretPrefix = "whsec_"
	newSecret    = 32 // bytes
	minSecret    = 24
	maxSecret    = 64
)

// NewSecret generates a secret for signing the messages to a webhook: "whsec_" and 32 random bytes in base64.
func (*Webhook) NewSecret() string {
	key := make([]byte, newSecret)
	rand.Read(key) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// CheckSecret checks that a text is a secret that Mailroom and receivers read in the same way: "whsec_" and the
// padded base64 of 24 to 64 bytes. The error, invalid_params, does not show the text.
func (*Webhook) CheckSecret(text string) error {
	_, err := keyOf(text)
	return err
}

// keyOf returns the key of a secret.
func keyOf(secret string) ([]byte, error) {
	text, prefixed := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	switch {
	case !prefixed || err != nil || base64.StdEncoding.EncodeToString(key) != text:
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "the secret must be whsec_ followed by base64").
			WithHint("Use the secret that the receiver shows, or an empty secret to generate a new one")
	case len(key) < minSecret || len(key) > maxSecret:
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "the secret has %d bytes, but must have %d to %d",
			len(key), minSecret, maxSecret).
			WithHint("Use the secret that the receiver shows, or an empty secret to generate a new one")
	}
	return key, nil
}

// sign sets the headers by which the receiver identifies the message and verifies its origin and time.
func sign(h http.Header, a *orchestrator.Attempt, id string, now time.Time, body []byte) error {
	if a.Secret == "" {
		return orchestrator.Errorf(orchestrator.DeliveryFailed, "no secret is set to sign messages to %s",
			a.Recipient).
			WithHint("To generate a secret, run `mailroom agent add %s --secret ''`, and give the secret to the receiver", a.Recipient)
	}
	key, err := keyOf(a.Secret)
	if err != nil {
		return err
	}
	id, at := safe(id), strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.", id, at)
	mac.Write(body)
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", at)
	h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}

// cloudEvent is a message in the form that a webhook gets: a CloudEvents 1.0 event in structured mode. Source:
// CloudEvents 1.0.2, its JSON format and its extension for distributed tracing.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            string          `json:"time,omitempty"`
	DataContentType string          `json:"datacontenttype"`
	Traceparent     string          `json:"traceparent,omitempty"`
	Data            json.RawMessage `json:"data"` // the same object as a line of a file
}

// encodeEvent encodes the body of a request. The body depends on the message alone, so a repeat after a crash is
// identical to the byte. A message without an ID, or one that cannot be encoded as JSON, is an error.
func encodeEvent(m *orchestrator.Message) ([]byte, error) {
	if m.ID == "" {
		return nil, errors.New("the message has no ID, so the receiver could not recognize a repeat")
	}
	var data bytes.Buffer
	if err := writeLine(&data, m); err != nil {
		return nil, err
	}
	e := cloudEvent{
		SpecVersion: "1.0", ID: m.ID, Source: "/mailroom/agents/" + safe(m.Sender), Type: "mailroom.message",
		Subject: m.Recipient, DataContentType: "application/json", Traceparent: m.Traceparent(), Data: data.Bytes(),
	}
	if m.Type != "" {
		e.Type += "." + safe(m.Type)
	}
	if _, err := time.Parse(time.RFC3339, m.CreatedAt); err == nil {
		e.Time = m.CreatedAt
	}
	body, err := orchestrator.JSON(e)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the message as a CloudEvent: %w", err)
	}
	return body, nil
}

// safe escapes a name from outside for a header, a URI or the name of a type. Letters, digits, - and _ stay;
// everything else is percent-encoded. Different names stay different. A full stop is encoded too, because full
// stops separate the parts of the signed text.
func safe(name string) string {
	return strings.NewReplacer("+", "%20", ".", "%2E", "~", "%7E").Replace(url.QueryEscape(name))
}
