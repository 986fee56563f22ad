package orchestrator

import (
	"context"
	"fmt"
	"time"
)

// SetPresence notes what an agent that is known does in a session, as the acts of a team do.
func (r *Router) SetPresence(ctx context.Context, j Joining, status PresenceStatus) (p Presence, err error) {
	err = r.write(ctx, func(t *tx) error {
		p, err = t.takePresence(j.Session, j.Agent, status)
		return err
	})
	return p, err
}

// SearchedAtOnce is how many rows of each source one search walks over.
const SearchedAtOnce = searchStep * searchSteps

// ApplicationID is applicationID as SQL.
var ApplicationID = fmt.Sprint(applicationID)

// Migrations are the scripts between versions.
var Migrations = migrations

// Made lists the names of what a script makes().
func Made(script string) (names []string) {
	for _, made := range makes().FindAllStringSubmatch(script, -1) {
		names = append(names, made[1])
	}
	return names
}

// NextDue is when the router plans to look next.
func (r *Router) NextDue() (time.Time, error) { return r.nextDue(context.Background(), "") }

// AnythingDue reports whether a delivery run would be made now.
func (r *Router) AnythingDue() (bool, error) {
	found, _, err := r.anythingDue(context.Background())
	return found, err
}

// ParsePushHosts reads the setting signal.push_hosts.
var ParsePushHosts = parsePushHosts

// Confusable is a row of the table of characters that look like others.
type Confusable struct {
	From rune
	To   string
}

// Confusables returns that table.
func Confusables() (list []Confusable) {
	for _, c := range confusables {
		list = append(list, Confusable{c.from, c.to})
	}
	return list
}

// MostOpen is how many connections a process reads with at the same time.
const MostOpen = mostOpen

// Read calls fn while it has a connection to read with.
func (r *Router) Read(ctx context.Context, fn func()) error {
	return r.read(ctx, func(*Conn) error {
		fn()
		return nil
	})
}
