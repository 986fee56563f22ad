package ledger

import "time"

// MaxLease is the longest lease that can be given: the longest delivery timeout and its grace.
const MaxLease = time.Hour + LeaseGrace

// LeaseGrace is how much longer than the delivery timeout a lease lasts, so that the worker itself is the first to call
// an attempt too long.
const LeaseGrace = 30 * time.Second

// UsualLease is how long a lease on a message to an agent lasts unless the run says otherwise; nil is an agent that nobody knows.
func (conf *Config) UsualLease(agent *Agent) time.Duration {
	timeout := conf.Settings.deliveryTimeout
	if agent != nil {
		timeout = agent.Timeout(&conf.Settings)
	}
	return min(max(timeout, time.Second), MaxLease-LeaseGrace) + LeaseGrace // a row of agents may be written by hand
}
