package messages

import (
	"context"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// searchStep is the number of rows of each index, or of the table, that one transaction of a search examines.
// searchSteps is the number of such transactions in one search.
const searchStep, searchSteps = 2000, 25

// Search selects messages for SearchOwn, among those that an agent sent or received and the posts in its threads.
type Search struct {
	Agent    string // "" searches the messages of all agents
	Sender   string
	To       string // agent or group to which it was sent
	With     string // sent to or by this agent
	Status   orchestrator.Status
	Type     string
	ThreadID string
	Since    string // created at or after; see HistoryFilter
	Limit    int

	// Says reports whether the content of a message matches. It is called last, for messages that match in all other
	// respects, outside of any transaction.
	Says func(*orchestrator.Message) bool
	From SearchPlace // where to continue
}

// SearchPlace is the position that a search has reached. The zero value is the start: the newest message.
type SearchPlace struct {
	Before    int64  // seq; newer messages have been searched
	Multicast string // id of the last send found; its other rows are skipped
}

// Found is the result of one call of SearchOwn, newest first.
type Found struct {
	Messages []orchestrator.Message
	Complete bool        // all messages have been searched; otherwise see Next and BackTo
	Next     SearchPlace // where to continue
	BackTo   string      // messages sent since this time have been searched
}

// SearchOwn searches the messages of an agent, newest first, in the table and in the archive. One call examines a
// bounded number of messages: if Found.Complete is false, call SearchOwn again from Found.Next. A send to several
// agents is found once. SearchOwn does not mark messages as read. Error: invalid_params for a time that cannot be
// read.
func SearchOwn(ctx context.Context, l *ledger.Ledger, s Search) (found Found, err error) {
	for _, name := range []*string{&s.Agent, &s.Sender, &s.To, &s.With} {
		*name = orchestrator.FoldName(*name)
	}
	if s.Since, err = boundary(l, "since", s.Since); err != nil {
		return found, err
	}
	found = Found{Messages: []orchestrator.Message{}, Next: s.From}
	if found.Next.Before == 0 {
		found.Next.Before = 1<<63 - 1
	}
	size := 0
	for range searchSteps {
		var step searched
		err := l.View(ctx, func(c *store.Conn, conf *ledger.Config) (err error) {
			step, err = oneSearchStep(c, conf, &s, found.Next.Before)
			return err
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return found, err
		}
		for i := range step.candidates {
			m := &step.candidates[i]
			if m.MulticastID != "" && m.MulticastID == found.Next.Multicast || !s.Says(m) {
				continue
			}
			if size += len(m.Payload); len(found.Messages) > 0 && size > ledger.MaxRead {
				return found, nil
			}
			found.Messages = append(found.Messages, *m)
			found.Next, found.BackTo = SearchPlace{m.Seq, m.MulticastID}, m.CreatedAt
			if len(found.Messages) == s.Limit {
				return found, nil
			}
		}
		found.Next.Before, found.BackTo, found.Complete = step.floor, step.backTo, step.last
		if step.last {
			return found, nil
		}
	}
	return found, nil
}

// searched is the result of one step of a search.
type searched struct {
	candidates []orchestrator.Message // messages that match, except that Says has not been called
	floor      int64                  // seq of the oldest row examined
	backTo     string                 // creation time of that row
	last       bool                   // no rows are left
}

// searchSource is a table or index that a search examines in order, with a condition.
type searchSource struct{ from, where string }

// ownPosts is the condition for posts, of either table as m, in the threads of the agent ?1.
const ownPosts = `m.recipient IN (SELECT '` + orchestrator.ThreadPrefix +
	`' || thread_id FROM thread_participants WHERE agent = ?1)`

// sources returns sources that contain few messages of other agents. There is no index of the unarchived messages
// that an agent received, because it would make sending slower. Therefore the table itself is examined, unless the
// filter allows a better source.
func (s *Search) sources() []searchSource {
	archive := func(index string) string { return `agent_message_archive m INDEXED BY agent_message_archive_` + index }
	switch {
	case s.ThreadID != "":
		return []searchSource{{`agent_message m INDEXED BY agent_message_thread`, `thread_id = ?3`},
			{archive("thread"), `thread_id = ?3`}}
	case s.Agent == "" && s.Sender != "":
		return []searchSource{{`agent_message m NOT INDEXED`, `true`}, {archive("sender"), `sender = ?2`}}
	case s.Agent == "":
		return []searchSource{{`agent_message m NOT INDEXED`, `true`}, {`agent_message_archive m NOT INDEXED`, `true`}}
	case s.Sender != "" && s.Sender != s.Agent:
		return []searchSource{
			{`agent_message m INDEXED BY agent_message_past`, `sender = ?2 AND ` + ledger.Past},
			{`agent_message m INDEXED BY agent_message_live`, `recipient = ?1 AND ` + ledger.Live},
			{archive("sender"), `sender = ?2`},
		}
	}
	return []searchSource{{`agent_message m NOT INDEXED`, `true`}, {archive("sender"), `sender = ?1`},
		{archive("recipient"), `recipient = ?1`}}
}

// oneSearchStep examines rows older than a seq: searchStep rows of each source, or fewer if their payloads are large.
func oneSearchStep(c *store.Conn, conf *ledger.Config, s *Search, before int64) (step searched, err error) {
	args := []any{s.Agent, s.Sender, s.ThreadID, s.Type, s.Since, before, conf.Former(s.Agent), conf.Since(s.Agent),
		s.With, string(s.Status), s.To}
	sources := s.sources()
	for _, from := range sources {
		err := c.Query(from.floor(), func(row store.Row) error {
			if seq := row.Int(0); seq > step.floor {
				step.floor, step.backTo = seq, row.Text(1)
			}
			return nil
		}, append(slices.Clone(args), searchStep-1)...)
		if err != nil {
			return step, err
		}
	}
	step.last = step.floor == 0
	args = append(args, step.floor)
	if s.Agent != "" && s.ThreadID == "" && s.Sender == "" {
		sources = append(sources,
			searchSource{`agent_message_archive m INDEXED BY agent_message_archive_recipient`, ownPosts})
	}
	var more bool
	step.candidates, more, err = ledger.Fetch(c, s.candidates(sources), searchStep, ledger.MaxRead,
		append(slices.Clone(args), searchStep+1)...)
	if err != nil {
		return step, err
	}
	if more {
		oldest := &step.candidates[len(step.candidates)-1]
		step.floor, step.backTo, step.last = oldest.Seq, oldest.CreatedAt, false
		return step, nil
	}
	if s.Since != "" && !step.last {
		step.last, err = allBefore(c, s.Since, sources, args)
	}
	return step, err
}

// floor returns a SELECT of the last row of a step through the source. The SELECT yields no row if fewer rows are
// left.
func (from searchSource) floor() string {
	return `SELECT seq, created_at FROM ` + from.from + ` WHERE ` + from.where +
		` AND seq < ?6 ORDER BY seq DESC LIMIT 1 OFFSET +?12`
}

// candidates returns a SELECT of the places of the matching rows between ?12 and ?6, newest first. For a post that
// mentions several agents, its author and a search of all messages find the thread's own row, and a search for one of
// these agents finds that agent's row. ?7 and ?8 separate the agent's mail from that of a removed one: see
// ledger.GotAs.
func (s *Search) candidates(sources []searchSource) string {
	fits := ` AND seq >= ?12 AND seq < ?6 AND (?2 = '' OR +m.sender = ?2) AND (?3 = '' OR +m.thread_id = ?3)
		AND (?4 = '' OR message_type = ?4) AND (?5 = '' OR created_at >= ?5)
		AND (?9 = '' OR +m.recipient = ?9 OR +m.sender = ?9)
		AND (?11 = '' OR +m.recipient = ?11 OR +m.multicast_target = ?11) AND (?10 = '' OR +m.status = ?10)
		AND (+m.recipient = ?1 AND ` + ledger.GotAs("?7", "?8") + ` OR +` + ownPosts + `
			OR (?1 = '' OR +m.sender = ?1 AND m.seq > ?7) AND (m.multicast_id IS NULL OR m.message_id = m.multicast_id
			OR m.multicast_target NOT LIKE '` + orchestrator.ThreadPrefix + `%' OR +m.recipient = ?11 OR +m.recipient = ?9))`
	var parts []string
	for _, from := range sources {
		archived := `0`
		if strings.HasPrefix(from.from, "agent_message_archive ") {
			archived = `1`
		}
		parts = append(parts, `SELECT `+archived+`, seq FROM `+from.from+` WHERE `+from.where+fits)
	}
	return strings.Join(parts, "\nUNION\n") + ` ORDER BY 2 DESC LIMIT +?13`
}

// allBefore reports whether a step examined only rows older than since. No later row is newer then, because times
// ascend, except in single rows written by hand.
func allBefore(c *store.Conn, since string, sources []searchSource, args []any) (bool, error) {
	for _, from := range sources {
		n, err := c.Number(`SELECT EXISTS (SELECT 1 FROM `+from.from+` WHERE `+from.where+
			` AND seq >= ?12 AND seq < ?6 AND created_at >= ?5)`, args...)
		if err != nil || n > 0 {
			return false, err
		}
	}
	return true, nil
}
