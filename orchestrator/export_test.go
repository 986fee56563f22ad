package orchestrator

import (
	"context"
	"fmt"
	"time"
)

// RealInbox is transport.Inbox, which imports this package, so that only its external tests can fill it in.
var RealInbox Transport

// HotStatements are the statements whose plans are kept by TestQueryPlans.
var HotStatements = struct{ Due, Next, Untraced, ForeignTo, ForeignBacklogs, Review, Leased, Lapsed, Ended, Retry, Wanted, PutOff string }{
	Due: `SELECT seq FROM agent_message m WHERE ` + takeable + `
		AND NOT ` + behindPutOff + ` ORDER BY priority DESC, seq LIMIT ?3`,
	Next:            `SELECT recipient FROM agent_message WHERE ` + live + ` AND recipient >= ? AND recipient < x'' ORDER BY recipient LIMIT 1`,
	Untraced:        `SELECT seq FROM agent_message WHERE (` + foreign + `) AND seq > ? ORDER BY seq LIMIT ?`,
	ForeignTo:       foreignTo,
	ForeignBacklogs: foreignBacklogs,
	Review:          `SELECT seq FROM agent_message WHERE review_at <> '' AND review_at <= ? ORDER BY review_at LIMIT ?`,
	Leased:          `SELECT count(*) FROM agent_message WHERE ` + leased + ` AND lease_until <= ?`,
	Lapsed:          `SELECT ` + messageColumns + endedLeases,
	Ended:           `SELECT seq FROM agent_message WHERE ended_at <> '' AND ended_at < ? ORDER BY ended_at LIMIT ?`,
	Retry:           `SELECT min(next_attempt_at) FROM agent_message WHERE ` + later + ` AND ` + goesSomewhere,
	Wanted:          `SELECT min(next_attempt_at) FROM agent_message WHERE ` + wantedLater + ` AND held = 0 AND lease_token = '' AND ` + goesSomewhere,
	PutOff:          `SELECT 1 FROM agent_message m WHERE m.seq = ?3 AND ` + behindPutOff,
}

// SignalStatements are the conditions of statements about questions and alerts whose plans are kept by TestQueryPlans.
var SignalStatements = struct {
	OfMessage, Unreturned string
	List                  func(QuestionFilter) string
}{ofMessage, unreturned, func(f QuestionFilter) string {
	query, _ := f.query("", "")
	return query
}}

// SetPresence notes what an agent that is known does in a session, as the acts of a team do.
func (r *Router) SetPresence(ctx context.Context, j Joining, status PresenceStatus) (p Presence, err error) {
	err = r.write(ctx, func(t *tx) error {
		p, err = t.takePresence(j.Session, j.Agent, status)
		return err
	})
	return p, err
}

// HistoryQuery is the statement of History.
func HistoryQuery(f HistoryFilter) string { return f.query() }

// ConversationStatements are the statements whose plans are kept by TestConversationPlans.
var ConversationStatements = struct{ Events, Unaccepted, OpenRequests, Waits, ClosedPosts, Token, Participants, VoidRequests, OfAgent, SessionThreads, UnreadPosts string }{
	Events: `SELECT t.id FROM message_trace t LEFT JOIN agent_message m ON m.message_id = t.message_id
		LEFT JOIN agent_message_archive a ON m.message_id IS NULL AND a.message_id = t.message_id WHERE t.id > ? ORDER BY t.id LIMIT ?`,
	Unaccepted: `SELECT message_id FROM acknowledgement_due WHERE due_at <= ? AND message_id < x'' ORDER BY due_at LIMIT ?`,
	OpenRequests: `SELECT ` + requestColumns + ` FROM team_requests q
		WHERE q.responder = ?1 AND q.status = 'open' AND q.session_id = ?2 ORDER BY q.request_id`,
	Waits:       `SELECT waits_for, since, filtered, posts FROM waits WHERE waiter = ?`,
	ClosedPosts: `SELECT m.seq` + closedPosts,
	Token:       `SELECT ` + tokenColumns + ` FROM tokens WHERE hash = ?`,
	Participants: `SELECT p.agent, s.display_name FROM thread_participants p LEFT JOIN presence s ON s.session_id = ?2 AND s.agent = p.agent
		WHERE p.thread_id = ?1 ORDER BY p.agent <> ?3, p.joined_at, p.agent`,
	VoidRequests:   `UPDATE team_requests SET status = 'open' WHERE status = 'void' AND message_id = ?`,
	OfAgent:        `SELECT 1 FROM presence JOIN thread_participants USING (agent) WHERE agent = ?`,
	SessionThreads: `SELECT rowid FROM presence WHERE ` + overPresence,
	UnreadPosts:    `SELECT 0, m.seq` + unreadPosts + ` ORDER BY m.seq LIMIT +?2`,
}

// OwnMailStatements are the statements over an agent's own mail whose plans are kept by TestOwnMailPlans.
var OwnMailStatements = struct{ Threads, Unread, Posts string }{threadsOf, unreadIn, postsOf}

// SearchedAtOnce is how many rows of each source one search walks over.
const SearchedAtOnce = searchStep * searchSteps

// SearchStatements are those of a step of a search.
func SearchStatements(s Search) []string {
	statements := []string{s.candidates(s.sources())}
	for _, from := range s.sources() {
		statements = append(statements, from.floor())
	}
	return statements
}

// PlacedStatements are the statements whose plans are kept by TestPlacedInOrderPlan.
var PlacedStatements = struct{ InOrder string }{placedInOrder}

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

// SessionStatements are the statements whose plans are kept by TestSessionPlans.
var SessionStatements = struct{ Silent, Latest, Unread, Delivered, Working, LastSent string }{
	Silent:    `SELECT agent, heard_at FROM heartbeats WHERE silent_at <> '' AND silent_at <= ? AND agent < x'' ORDER BY silent_at LIMIT ?`,
	Latest:    `SELECT ` + presenceColumns + ` FROM presence WHERE agent = ? ORDER BY since DESC, rowid DESC LIMIT 1`,
	Unread:    newestUnread,
	Delivered: firstDelivered,
	Working:   `SELECT session_id FROM presence WHERE agent = ? AND status = 'working'`,
	LastSent:  `SELECT message_id FROM agent_message WHERE ` + past + ` AND sender = ? ORDER BY seq DESC LIMIT 1`,
}

// PlacedQueries are the statements of EachPlaced, by table.
func PlacedQueries() map[string]string {
	queries := map[string]string{}
	for _, table := range []string{"agent_message", "agent_message_archive"} {
		queries[table] = placedQuery(table)
	}
	return queries
}

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
