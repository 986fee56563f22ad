package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mailroom/orchestrator"
)

// The form of a secret. Source: Standard Webhooks 1.0, "Signature scheme".
const (
	secretPrefix = "whsec_"
	newSecret    = 32 // bytes
	minSecret    = 24
	maxSecret    = 64
)

// NewSecret makes a secret with which the messages to a webhook are signed: "whsec_" and 32 random bytes in base64.
func (*Webhook) NewSecret() string {
	key := make([]byte, newSecret)
	rand.Read(key) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// CheckSecret checks that a text is a secret that signs, and that receivers will read as we do: "whsec_" and the base64,
// padded, of 24 to 64 bytes. The error, invalid_params, does not show the text.
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
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "the secret is not whsec_ and base64").
			WithHint("Take the one that the receiver shows, or an empty one to have one made")
	case len(key) < minSecret || len(key) > maxSecret:
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "the secret holds %d bytes; it must be %d to %d", len(key), minSecret, maxSecret).
			WithHint("Take the one that the receiver shows, or an empty one to have one made")
	}
	return key, nil
}

// sign sets the headers by which the receiver knows the message, and that it comes from here and at what time.
func sign(h http.Header, a *orchestrator.Attempt, id string, now time.Time, body []byte) error {
	if a.Secret == "" {
		return orchestrator.Errorf(orchestrator.DeliveryFailed, "there is no secret to sign messages to %s with", a.Recipient).
			WithHint("Have one made, and give it to the receiver: `mailroom agent add %s --secret ''`", a.Recipient)
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
