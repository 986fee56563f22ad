package transport

import (
	"crypto/tls"
	"net"
	"time"
)

// What the tests of Webhook call.
var (
	MustBePublic = mustBePublic
	RetryAfter   = retryAfter
)

// WebhookSurroundings are what a Webhook finds around it; see the fields of Webhook.
type WebhookSurroundings struct {
	Resolver       *net.Resolver
	TLS            *tls.Config
	Dialling       func(address string) error
	Idle, Patience time.Duration
}

func NewWebhook(s WebhookSurroundings) *Webhook {
	return &Webhook{resolver: s.Resolver, tls: s.TLS, dialling: s.Dialling, idle: s.Idle, patience: s.Patience}
}
