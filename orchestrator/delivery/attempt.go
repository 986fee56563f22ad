package delivery

import (
	"strings"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// newAttempt returns the Attempt for a claim, without Mark and Report.
func newAttempt(l *ledger.Ledger, c *claim, address string) orchestrator.Attempt {
	return orchestrator.Attempt{
		Recipient: c.agent.Name, Since: c.agent.CreatedAt, Address: address, Messages: c.messages, Database: l.Path(), At: l.Now(),
		Folder: c.agent.Folder, Secret: c.secret, AllowPrivate: c.agent.AllowPrivate, Slot: c.slot,
	}
}

// report keeps what a transport has to say of an attempt. One that was left behind may still speak.
type report struct {
	mu   sync.Mutex
	said string
}

// maxReport bounds what is kept of a report, in bytes.
const maxReport = 16 << 10

func (p *report) take(text string) {
	text = strings.ToValidUTF8(text[:min(len(text), maxReport)], "\uFFFD") // which may make it longer
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = strings.ToValidUTF8(text[:min(len(text), maxReport)], "")
}

func (p *report) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

// lingering is how long a transport may take to notice that its context has ended before it is left to itself.
func lingering(transport orchestrator.Transport) time.Duration {
	if l, ok := transport.(orchestrator.Lingerer); ok {
		return l.Linger()
	}
	return stallGrace
}
