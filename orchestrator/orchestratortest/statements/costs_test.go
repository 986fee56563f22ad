package statements_test

import (
	"regexp"
	"slices"
	"strings"
)

// growing matches the tables that have a row for each message, question or action, with their aliases in a statement.
var growing = regexp.MustCompile(`\b(agent_message|agent_message_archive|agent_inbox|dead_letter|message_trace|command_trace|` +
	`acknowledgement_due|idempotency|reading_lease|threads|team_requests|signal_questions|signal_alerts|heartbeats)\b(?: AS)?(?: (\w+))?`)

// few matches the indexes of rows that wait or need attention. There are few such rows, however many others there
// are.
var few = regexp.MustCompile(`INDEX (agent_message_(live|later|wanted_later|put_off|review|leased|untraced|dead)|agent_inbox_unread|` +
	`heartbeats_silent|signal_questions_(pending|open|unreturned)|team_requests_responder)$`)

var (
	walk  = regexp.MustCompile(`^ *SCAN (\w+)`)
	sorts = regexp.MustCompile(`USE TEMP B-TREE|AUTOMATIC`)
	// byID matches a search by ID, and ofAgent an index search that instead walks through all messages that one agent
	// ever sent or received.
	byID    = regexp.MustCompile(`\b(message_id|reply_to) (= |IN )`)
	ofAgent = regexp.MustCompile(`INDEX agent_message_(archive_recipient|archive_sender|archive_placed|past) \(\w+=\?\)$`)
)

// costlySteps returns the steps that walk through all rows of a growing table, or all of one agent, and those that
// sort or index rows of such a table for one execution.
func costlySteps(text string, steps []string) (costly []string) {
	names := map[string]bool{}
	for _, found := range growing.FindAllStringSubmatch(text, -1) {
		names[found[1]], names[found[2]] = true, true
	}
	for _, step := range steps {
		if found := walk.FindStringSubmatch(step); found != nil {
			inner := slices.ContainsFunc(steps,
				func(s string) bool { return strings.HasSuffix(s, "CO-ROUTINE "+found[1]) })
			if names[found[1]] && !inner && !few.MatchString(step) {
				costly = append(costly, step)
			}
		} else if byID.MatchString(text) && ofAgent.MatchString(step) || len(names) > 0 && sorts.MatchString(step) {
			costly = append(costly, step)
		}
	}
	return costly
}

// allowed reports whether mayCost allows a statement this number of costly steps, and records the parts that allow
// it.
func allowed(text string, steps int, needed map[string]bool) (ok bool) {
	for part, most := range mayCost {
		if steps <= most && strings.Contains(text+";", part) {
			needed[part], ok = true, true
		}
	}
	return ok
}

// mayCost maps parts of statements, as in statements.sql, that may have costly steps to the number of steps.
var mayCost = map[string]int{
	// Lists for people walk from the newest row up to their limit if no index fits the filter.
	`<= ?7) AND (recipient = ?3 OR multicast_target = ?3) UNION ALL`:               2,
	`<= ?7) AND (recipient = ?3 OR multicast_target = ?3) AND +seq < ?9 UNION ALL`: 2,
	`<= ?7) AND (+sender = ?9 AND +seq > ?10 OR`:                                   2,
	`FROM agent_message WHERE status IN ('failed','expired')`:                      1,
	`FROM signal_questions WHERE TRUE ORDER BY question_id`:                        1,
	`FROM signal_questions WHERE TRUE AND created_at`:                              1,
	`FROM signal_questions WHERE TRUE AND status = 'pending'`:                      1,
	`FROM signal_questions WHERE TRUE AND (status = 'expired'`:                     1,

	// A list of undelivered messages sorts them if there are few.
	`m INDEXED BY agent_message_live WHERE status IN ('pending','retry') AND seq > ?1`: 1,

	// The newest failures are read in the order of their index, up to a limit. There is one heartbeat for each agent.
	`event IN ('attempt_failed','failed','expired') ORDER BY at DESC LIMIT`: 1,
	`SELECT agent, heard_at, silent_at, told_at FROM heartbeats`:            1,

	// The counts of traffic cover a batch of events, in their order.
	`(SELECT DISTINCT message_id FROM message_trace WHERE id > ?1 AND id <= ?2`: 2,

	// A change of many rows of one agent traces them in the order of sending.
	`lease_token = '' AND recipient = ?1 ORDER BY seq`:                                   1,
	`held <> 0 AND recipient = ?1 ORDER BY seq`:                                          1,
	`status IN ('pending','retry') AND recipient = ?1 AND lease_token = '' ORDER BY seq`: 1,

	`AND sender IN (?1, ?2) AND sender <> recipient AND`: 1,

	// Unread messages are counted by kind, for a session or a digest.
	`GROUP BY message_type, action, wake, priority, sender`: 1,

	// Doctor examines the recent messages between two agents.
	`UNION ALL SELECT created_at FROM agent_message WHERE sender = ?1`: 3,
	`EXISTS (SELECT 1 FROM agent_message r WHERE r.reply_to`:           2,

	// Status, doctor, backup, restore and clear_old examine all rows. So do the removal of an agent and the return of
	// everything that one agent has read.
	`SELECT l.recipient, CASE WHEN l.until > ?1`:                                  1,
	`-count(*) FROM agent_message_archive) AS c`:                                  4,
	`SELECT '', 'archived', count(*) FROM agent_message_archive`:                  1,
	`SELECT (SELECT count(*) FROM agent_message) + `:                              2,
	`SELECT message_id FROM agent_message;`:                                       1,
	`SELECT message_id FROM agent_message_archive;`:                               1,
	`SELECT count(*) FROM agent_message;`:                                         1,
	`SELECT count(*) FROM heartbeats WHERE told_at <> ''`:                         1,
	`FROM command_trace WHERE name = 'backup'`:                                    3,
	`UPDATE reading_lease SET until = ?1, pid = 0`:                                1,
	`FROM agent_message WHERE status IS DISTINCT FROM 'delivered' AND (lease_tok`: 1,
	`DELETE FROM agent_inbox WHERE recipient = ?;`:                                1,
	`DELETE FROM acknowledgement_due WHERE EXISTS`:                                1,
	`i.read_at <> '' UNION ALL SELECT message_id FROM reading_lease l`:            1,

	// These read little of what they walk through: the last row, or current readings.
	`SELECT (SELECT at FROM message_trace ORDER BY id DESC LIMIT 1)`: 1,
	`FROM reading_lease WHERE pid > 0 AND host = ?1`:                 1,

	// The waiting messages of one agent, from one sender or in one thread are sorted, for the most urgent or the
	// oldest one.
	`ORDER BY CASE action WHEN 'interrupt'`:                                       1,
	`ORDER BY CASE m.action WHEN 'interrupt'`:                                     1,
	`status IN ('pending','retry') AND recipient = ? ORDER BY seq`:                1,
	`m INDEXED BY agent_message_live WHERE recipient = ?1`:                        1,
	`m INDEXED BY agent_message_live WHERE (?4 = '' OR message_type = ?4)`:        1,
	`status IN ('pending','retry') AND recipient = ?1 ORDER BY CASE WHEN traced_`: 1,
	`AND recipient = ? AND sender = ? AND seq <> ? ORDER BY lease_until`:          1,
	`FROM thread_participants p CROSS JOIN agent_message m`:                       1,
	`FROM thread_participants p JOIN threads t`:                                   1,

	// So are search results and rows in progress: the rows of one batch, of one step of a search, of other programs.
	`IN (SELECT seq FROM temp.batch)`:                       1,
	`m NOT INDEXED WHERE true AND seq >= ?12 AND seq < ?6`:  1,
	`WHERE seq >= ?1 AND seq < ?2 AND created_at >= ?3`:     1,
	`SELECT DISTINCT lease_token`:                           1,
	`SELECT DISTINCT delivery_marks`:                        1,
	`GROUP BY recipient, status, traced_status`:             1,
	`IS NOT TRUE AND instr(lower(recipient), ?1) > 0`:       1,
	`row_number() OVER (PARTITION BY asker ORDER BY rowid)`: 1,
	`SELECT event, count(*) FROM message_trace WHERE id >`:  1,
	`GROUP BY status, traced_status`:                        1,
	`INDEXED BY agent_message_wanted_later`:                 1,
	`(SELECT coalesce(max(CASE WHEN n BETWEEN`:              1,
	`t.id > (SELECT max(id) - 1000 FROM message_trace)`:     1,
	`WHERE reply_to IN (?1, ?3)`:                            2,
	`FROM command_trace WHERE span_id IN`:                   1,

	// The end of an ID, as typed by a person, is searched among all IDs.
	`WHERE upper(message_id) LIKE ?1`: 1,
}
