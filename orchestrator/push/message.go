// Package push defines the messages to the user's devices, and the hosts that may carry them.
package push

import (
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"

	"mailroom/orchestrator"
)

// DevicePrefix, followed by the ID of a device, is the recipient of a push. No agent has such a name.
const DevicePrefix = "device:"

// IsMailbox reports whether a recipient is neither a thread nor a device.
func IsMailbox(recipient string) bool {
	return !strings.HasPrefix(recipient, DevicePrefix) && !strings.HasPrefix(recipient, orchestrator.ThreadPrefix)
}

// Type is the message_type of a push. The sender of a push is the system, so nobody is notified if a push fails: a
// question also waits in the app.
const Type = "push"

// Kind is the kind of a push.
type Kind string

// The kinds of pushes.
const (
	Question Kind = "question"
	Alert    Kind = "alert"
	Ended    Kind = "ended" // a question no longer needs an answer
	Test     Kind = "test"
)

// Message is the payload of a push.
type Message struct {
	Kind      Kind   `json:"kind"`
	ID        string `json:"id"`               // of the question or alert
	Status    string `json:"status,omitempty"` // of a question that ended
	Encrypted bool   `json:"encrypted,omitempty"`
	// Body is an age file in base64 if Encrypted, and JSON otherwise. An encrypted body is omitted for the ntfy
	// topic, whose app cannot decrypt it.
	Body string `json:"body,omitempty"`
}

// Secret is the JSON in Attempt.Secret of an attempt to push to a device.
type Secret struct {
	Endpoint     string   `json:"endpoint"`
	P256dh       string   `json:"p256dh"` // base64url
	Auth         string   `json:"auth"`   // base64url
	VAPIDPrivate string   `json:"vapid_private"`
	VAPIDPublic  string   `json:"vapid_public"`
	Subscriber   string   `json:"subscriber"` // https URL
	Hosts        []string `json:"hosts"`      // push hosts that were added by hand
	AllowPrivate bool     `json:"allow_private"`
}

// NtfySecret is the JSON in Attempt.Secret of an attempt to send to an ntfy topic.
type NtfySecret struct {
	URL          string   `json:"url"`
	Token        string   `json:"token"`      // for the server; "" is none
	Key          string   `json:"key"`        // key of the buttons' tokens, hex
	SignalURL    string   `json:"signal_url"` // address of the app; "" is none
	Hosts        []string `json:"hosts"`
	AllowPrivate bool     `json:"allow_private"`
}

// CheckKeys checks the keys of a subscription as a browser supplies them: a point of the curve P-256, and 16 bytes,
// both in base64url. Errors are invalid_params and do not show the keys.
func CheckKeys(p256dh, auth string) error {
	point, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(p256dh, "="))
	if err == nil {
		_, err = ecdh.P256().NewPublicKey(point)
	}
	if err != nil {
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"p256dh must be a P-256 public key in base64url")
	}
	if secret, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(auth, "=")); err != nil ||
		len(secret) != 16 {
		return orchestrator.Errorf(orchestrator.InvalidParams, "auth must be 16 bytes in base64url")
	}
	return nil
}

// NtfyToken returns the token with which a button of a notification answers a question, 32 hex digits. Anyone who
// has the topic's key can compute it. The token is valid while the question is open, so it is normally used once.
// If the answer is refused, the token stays valid.
func NtfyToken(key, question string, option int) string {
	secret, _ := hex.DecodeString(key) // without a key there are no buttons
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(question + "\n" + strconv.Itoa(option)))
	return hex.EncodeToString(mac.Sum(nil))[:32]
}
