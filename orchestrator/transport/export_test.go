package transport

import (
	"crypto/tls"
	"net"
	"time"
)

// What the tests call.
var (
	MustBePublic = mustBePublic
	RetryAfter   = retryAfter
)

// Surroundings are what a transport finds around it; see the fields of connections.
type Surroundings struct {
	Resolver       *net.Resolver
	TLS            *tls.Config
	Dialling       func(address string) error
	Idle, Patience time.Duration
}

func (s Surroundings) set(c *connections) {
	c.resolver, c.tls, c.dialling, c.idle, c.patience = s.Resolver, s.TLS, s.Dialling, s.Idle, s.Patience
}

func NewWebhook(s Surroundings) *Webhook {
	w := new(Webhook)
	s.set(&w.connections)
	return w
}
