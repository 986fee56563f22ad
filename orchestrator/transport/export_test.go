package transport

import (
	"crypto/tls"
	"net"
	"time"
)

// Exports for the tests.
var (
	MustBePublic = mustBePublic
	RetryAfter   = retryAfter
	Topic        = topicOf
)

// Surroundings replace the environment of a transport; see the fields of connections.
type Surroundings struct {
	Resolver       *net.Resolver
	TLS            *tls.Config
	Dialling       func(address string) error
	Idle, Patience time.Duration
	Bound          time.Duration
}

func (s Surroundings) set(c *connections) {
	c.resolver, c.tls, c.dialling, c.idle, c.patience, c.bound = s.Resolver, s.TLS, s.Dialling, s.Idle, s.Patience,
		s.Bound
}

func NewWebhook(s Surroundings) *Webhook {
	w := new(Webhook)
	s.set(&w.connections)
	return w
}

func NewPush(s Surroundings) *Push {
	p := new(Push)
	s.set(&p.connections)
	return p
}

func NewNtfy(s Surroundings) *Ntfy {
	n := new(Ntfy)
	s.set(&n.connections)
	return n
}
