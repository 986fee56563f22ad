// Package push holds the messages to the devices of the user, and says which hosts may carry them.
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

// DevicePrefix begins the recipient of a push, before the id of the device. No agent has such a name.
const DevicePrefix = "device:"

// IsMailbox reports whether a recipient is somebody's name, and neither a thread nor a device.
func IsMailbox(recipient string) bool {
	return !strings.HasPrefix(recipient, DevicePrefix) && !strings.HasPrefix(recipient, orchestrator.ThreadPrefix)
}

// Type is the message_type of a push. A push is sent by the system, so that nobody is told when it fails: a question
// waits in the app, too.
const Type = "push"

// Kind is what a push is about.
type Kind string

// The kinds of pushes.
const (
	Question Kind = "question"
	Alert    Kind = "alert"
	Ended    Kind = "ended" // a question needs no answer any more
	Test     Kind = "test"
)

// Message is the payload of a push.
type Message struct {
	Kind      Kind   `json:"kind"`
	ID        string `json:"id"`               // of the question or alert
	Status    string `json:"status,omitempty"` // of a question that ended
	Encrypted bool   `json:"encrypted,omitempty"`
	// encrypted: an age file in base64; otherwise JSON. Not for those who cannot read it
	Body string `json:"body,omitempty"`
}

// Secret is what an attempt at a device has as its Secret, in JSON.
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

// NtfySecret is what an attempt at an ntfy topic has as its Secret, in JSON.
type NtfySecret struct {
	URL          string   `json:"url"`
	Token        string   `json:"token"`      // that the server wants; "" is none
	Key          string   `json:"key"`        // of the tokens of its buttons, hex
	SignalURL    string   `json:"signal_url"` // where the app is; "" is nowhere
	Hosts        []string `json:"hosts"`
	AllowPrivate bool     `json:"allow_private"`
}

// CheckKeys says what is wrong with the keys of a subscription, as a browser gives them: a point of the curve P-256 and
// 16 bytes, both in base64url. Errors are invalid_params, and show nothing of the keys.
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

// NtfyToken returns the token with which a button of a notification answers a question; whoever has the key of the
// topic can make it. It is good while the question is open, so usually once; if the answer is refused, it is good
// again. It has 32 hex digits.
func NtfyToken(key, question string, option int) string {
	secret, _ := hex.DecodeString(key) // "" has no buttons
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(question + "\n" + strconv.Itoa(option)))
	return hex.EncodeToString(mac.Sum(nil))[:32]
}
