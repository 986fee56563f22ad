package transport

import (
	"context"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/SherClockHolmes/webpush-go"

	"mailroom/orchestrator"
	"mailroom/orchestrator/push"
)

// Push sends questions and alerts to a device through the push service of its browser: Web Push (RFC 8030),
// encrypted for the device (RFC 8291), with VAPID (RFC 8292). Its address is the ID of a device, and Attempt.Secret
// is its push.Secret. The payload of each message is a push.Message.
//
// A response of 200 to 299 is a delivery: the push service has accepted the message. 404 and 410 are
// orchestrator.ErrGone. 429 and 503 with a Retry-After are an orchestrator.RetryAfter. Every other response is an
// error. If a payload is too long for the push service, it is sent again at once without its content, which the
// device then fetches. Redirects are not followed and proxies are not used. Endpoints are https URLs;
// push.CheckEndpoint restricts their hosts, and only hosts added by hand may be private. A message whose process
// was killed during its delivery is sent again, under the same topic.
//
// The zero value is ready for use. A Push must not be copied after the first use.
type Push struct{ connections connections }

const (
	// maxPushed is the maximum length of a payload, in bytes: a record of 4,096 bytes less the overhead of RFC 8188
	// and RFC 8291. Shorter payloads are padded, so that the length reveals nothing.
	maxPushed = 3993

	// smallRecord is the record size for a payload without content, for a push service that rejects the full one as
	// too long.
	smallRecord = 1024

	longestTTL = 28 * 24 * time.Hour // push services shorten or refuse longer ones
	pushTime   = 10 * time.Second    // time limit for the response of a push service or an ntfy server
)

// Check accepts the ID of a device: "d-" followed by letters and digits. Errors are invalid_params.
func (*Push) Check(address string) (string, error) {
	if id, ok := strings.CutPrefix(address, "d-"); !ok || len(id) > 64 || !isWord(id) {
		return "", orchestrator.Errorf(orchestrator.InvalidParams,
			"push is reserved for paired devices and cannot be the transport of an agent").
			WithHint("To pair a phone, run `mailroom signal pair`")
	}
	return address, nil
}

// MaxBatch returns 1: each push is a separate request.
func (*Push) MaxBatch() int { return 1 }

// Deliver sends the messages one after another.
func (p *Push) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	return oneByOne(ctx, &a, p.deliver)
}

func (p *Push) deliver(ctx context.Context, a *orchestrator.Attempt, m *orchestrator.Message) error {
	pushed, ttl, err := readPush(a, m)
	if err != nil {
		return err
	}
	s, endpoint, err := subscriptionOf(a)
	if err != nil {
		return err
	}
	full, short, err := encodePush(pushed)
	if err != nil {
		return err
	}
	options := webpush.Options{
		Subscriber: s.Subscriber, VAPIDPublicKey: s.VAPIDPublic, VAPIDPrivateKey: s.VAPIDPrivate,
		TTL: int(ttl / time.Second), Urgency: urgency(m.Priority), RecordSize: webpush.MaxRecordSize,
		Topic: topicOf(pushed.ID),
	}
	_, byHand := push.Host(endpoint, s.Hosts)
	t := pushTerms(a, endpoint, byHand && s.AllowPrivate)
	t.secrets = append(t.secrets, s.P256dh, s.Auth)
	if len(full) > maxPushed {
		full = short
	}
	status, err := p.send(ctx, full, s, &options, t)
	if status == http.StatusRequestEntityTooLarge {
		options.RecordSize = smallRecord
		_, err = p.send(ctx, short, s, &options, t)
	}
	return err
}

// topicOf returns the name of an ID at push services and ntfy servers: 32 letters, digits, - and _. A later
// notification with the same name replaces the earlier one.
func topicOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}

// pushTerms returns the terms of a request to a push service or an ntfy server.
func pushTerms(a *orchestrator.Attempt, address *url.URL, allowPrivate bool) *terms {
	return &terms{
		allowPrivate: allowPrivate, allow: "To allow it, run `mailroom setting set signal.allow_private on`",
		timeout: pushTime,
		gone:    []int{http.StatusNotFound, http.StatusGone}, secrets: secretParts(address), report: a.Report,
	}
}

// send encrypts a payload and makes the request.
func (p *Push) send(ctx context.Context, payload []byte, s *push.Secret, o *webpush.Options, t *terms) (status int,
	err error) {
	var made unsent
	o.HTTPClient = &made
	_, err = webpush.SendNotificationWithContext(ctx, payload,
		&webpush.Subscription{Endpoint: s.Endpoint, Keys: webpush.Keys{P256dh: s.P256dh, Auth: s.Auth}}, o)
	if err != nil {
		return 0, fmt.Errorf("cannot encrypt the push notification: %w", err)
	}
	return p.connections.do(ctx, made.request, t)
}

// unsent captures the request that webpush makes, so that Mailroom sends it itself. The client of webpush would
// follow redirects.
type unsent struct{ request *http.Request }

func (u *unsent) Do(r *http.Request) (*http.Response, error) {
	u.request = r
	return nil, nil
}

// readPush returns the push message in m's payload and the time until it expires.
func readPush(a *orchestrator.Attempt, m *orchestrator.Message) (*push.Message, time.Duration, error) {
	p := new(push.Message)
	if !utf8.Valid(m.Payload) || json.Unmarshal(m.Payload, p) != nil || p.ID == "" {
		return nil, 0, errors.New("the message is not a push notification")
	}
	switch p.Kind {
	case push.Question, push.Alert:
		_, err := base64.StdEncoding.DecodeString(p.Body)
		// A body that was to be encrypted never leaves in clear text, whoever wrote the row.
		if p.Encrypted && err != nil || !p.Encrypted && !json.Valid([]byte(p.Body)) {
			return nil, 0, errors.New("the body of the push notification is not valid")
		}
	case push.Ended, push.Test:
	default:
		return nil, 0, fmt.Errorf("unknown kind of push notification %.40q", p.Kind)
	}
	if m.ExpiresAt == "" {
		return p, longestTTL, nil
	}
	at := a.At
	if at.IsZero() {
		at = time.Now()
	}
	end, err := time.Parse(time.RFC3339, m.ExpiresAt)
	if err != nil {
		return nil, 0, errors.New("the expiry time of the message is not valid")
	}
	if !end.After(at) {
		return nil, 0, orchestrator.Errorf(orchestrator.MessageExpired, "the push notification was not sent because it expired at %s", m.ExpiresAt)
	}
	return p, min(end.Sub(at), longestTTL), nil
}

// subscriptionOf decodes and checks the subscription in the attempt's secret.
func subscriptionOf(a *orchestrator.Attempt) (s *push.Secret, endpoint *url.URL, err error) {
	s = new(push.Secret)
	if json.Unmarshal([]byte(a.Secret), s) != nil || s.Endpoint == "" {
		return nil, nil, fmt.Errorf("%s has no subscription with a push service", a.Recipient)
	}
	if _, err := push.CheckEndpoint(s.Endpoint, s.Hosts); err != nil {
		return nil, nil, err
	}
	if err := push.CheckKeys(s.P256dh, s.Auth); err != nil {
		return nil, nil, err
	}
	private, err := base64.RawURLEncoding.DecodeString(s.VAPIDPrivate)
	if err != nil {
		return nil, nil, errors.New("the VAPID key must be base64url")
	}
	key, err := ecdh.P256().NewPrivateKey(private)
	if err != nil || base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()) != s.VAPIDPublic {
		return nil, nil, errors.New("the VAPID keys do not match")
	}
	if !strings.HasPrefix(s.Subscriber, "https://") {
		// webpush takes other texts for e-mail addresses, which some services refuse.
		return nil, nil, errors.New("the subscriber must be an https URL")
	}
	endpoint, err = url.Parse(s.Endpoint)
	return s, endpoint, err
}

// pushed is the payload that the service worker of the device gets.
type pushed struct {
	Kind       push.Kind       `json:"kind"`
	ID         string          `json:"id"`
	Status     string          `json:"status,omitempty"`
	Ciphertext string          `json:"ciphertext,omitempty"`
	Text       json.RawMessage `json:"text,omitempty"`
}

// encodePush encodes the payload, and a short payload without content.
func encodePush(p *push.Message) (full, short []byte, err error) {
	content := pushed{Kind: p.Kind, ID: p.ID}
	if p.Kind == push.Ended {
		content.Status = p.Status
	}
	if short, err = orchestrator.JSON(content); err != nil {
		return nil, nil, err
	}
	if p.Kind == push.Ended || p.Kind == push.Test {
		return short, short, nil
	}
	if p.Encrypted {
		content.Ciphertext = p.Body
	} else {
		content.Text = json.RawMessage(p.Body)
	}
	full, err = orchestrator.JSON(content)
	return full, short, err
}

// urgency maps a priority to the urgency by which a push service decides whether to wake a phone that saves its
// battery.
func urgency(priority int) webpush.Urgency {
	switch {
	case priority < 0:
		return webpush.UrgencyLow
	case priority > 0:
		return webpush.UrgencyHigh
	}
	return webpush.UrgencyNormal
}

// secretParts returns the parts of a URL that would let anyone push to the device: everything after the host, as a
// whole and in pieces. Pieces of less than 8 bytes are ordinary words and are left out.
func secretParts(u *url.URL) (parts []string) {
	all := append([]string{u.RequestURI(), u.EscapedPath(), u.RawQuery}, strings.Split(u.Path, "/")...)
	for _, values := range u.Query() {
		all = append(all, values...)
	}
	for _, part := range all {
		if len(part) >= 8 {
			parts = append(parts, part)
		}
	}
	return parts
}

// isWord reports whether a text consists of letters and digits only, so that it cannot form a path outside of one
// folder.
func isWord(s string) bool {
	return s != "" && strings.Trim(s, orchestrator.Alphanumeric) == ""
}
