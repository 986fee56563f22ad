package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/history"
	"mailroom/orchestrator/orchestratortest/torture"
)

// plants lists bugs of an engine, each as the traces that it would leave in the files of a run. harm returns text
// that the checker's report must contain.
var plants = []struct {
	name, check string
	harm        func(s *scene) (names string)
}{
	{"second delivery into a file", "arrivals", func(s *scene) string {
		lines := s.lines()
		s.setLines(append(lines, lines[len(lines)/2]))
		return idOf(s.t, lines[len(lines)/2]) + " was delivered 1 times and stands 2 times"
	}},
	{"second delivery into an inbox", "arrivals", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM agent_inbox`)
		s.sql(`DELETE FROM agent_inbox WHERE message_id = ?`, id)
		s.sql(`INSERT INTO agent_inbox (recipient, message_id) SELECT recipient, message_id FROM witness
			WHERE change = 'insert' AND message_id = ?`, id)
		return id + " was delivered 1 times and stands 2 times"
	}},
	{"second delivery in the trace", "arrivals", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM message_trace WHERE event = 'delivered'`)
		s.sql(`INSERT INTO message_trace (message_id, at, event, old_status, new_status, attempt, actor)
			SELECT ?, max(at), 'delivered', 'delivered', 'delivered', 0, 'planted' FROM message_trace`, id)
		return id + " was delivered again"
	}},
	{"delivery into a stranger's inbox", "arrivals", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM agent_inbox WHERE recipient = 'inboxed'`)
		s.sql(`INSERT INTO agent_inbox (recipient, message_id) VALUES ('bob', ?)`, id)
		return id + " to inboxed stands in the inbox of bob"
	}},
	{"delivery that never arrived", "arrivals", func(s *scene) string {
		lines := s.lines()
		s.setLines(lines[:len(lines)-1])
		return idOf(s.t, lines[len(lines)-1]) + " was delivered 1 times and stands 0 times"
	}},
	{"lost row", "state", func(s *scene) string {
		s.dismiss()
		id := s.victim(`SELECT message_id FROM agent_message_archive`)
		s.sql(`DELETE FROM agent_message_archive WHERE message_id = ?`, id)
		return id + " is lost"
	}},
	{"row lost before it was archived", "state", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM agent_message`)
		s.sql(`DELETE FROM agent_message WHERE message_id = ?`, id)
		return id + " left agent_message"
	}},
	{"acknowledged and never written", "sends", func(s *scene) string {
		s.events = append(s.events,
			history.Event{At: 1, Kind: history.Asked, Process: "planted.1", Lane: "planted", Number: 1,
				Token: "planted", Sender: "ann", Recipient: "filed"},
			history.Event{At: 2, Kind: history.Acknowledged, Process: "planted.1", Token: "planted",
				MessageID: "msg-planted"})
		return "planted was acknowledged as msg-planted and is lost"
	}},
	{"acknowledged and rolled back", "sends", func(s *scene) string {
		s.dismiss()
		id := s.victim(`SELECT message_id FROM agent_message_archive WHERE recipient = 'filed' AND message_id IN (` +
			s.acknowledged() + `)`)
		for _, table := range []string{"agent_message_archive", "witness", "message_trace"} {
			s.sql(`DELETE FROM `+table+` WHERE message_id = ?`, id)
		}
		return "was acknowledged as " + id + " and is lost"
	}},
	{"sent twice", "sends", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM agent_message_archive WHERE recipient = 'filed'`)
		s.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload) SELECT 'msg-twice', sender, recipient,
			payload FROM agent_message_archive WHERE message_id = ?`, id)
		return "exists twice: as " + id + " and as msg-twice"
	}},
	{"sent by nobody", "sends", func(s *scene) string {
		s.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload)
			VALUES ('msg-stray', 'ann', 'filed', '{"token":"stray"}')`)
		return "msg-stray"
	}},
	{"sent to another", "sends", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM agent_message_archive WHERE recipient = 'filed'`)
		s.sql(`UPDATE witness SET recipient = 'bob' WHERE change = 'insert' AND message_id = ?`, id)
		return id + " is from"
	}},
	{"sends that changed places", "send order", func(s *scene) string {
		ids := s.victims(`SELECT a.message_id || ' ' || b.message_id FROM witness a JOIN witness b ON b.seq = a.seq + 1
			AND b.change = 'insert'
			WHERE a.change = 'insert' AND a.token LIKE 'lines-%'
				AND substr(b.token, 1, instr(substr(b.token, 7), '-') + 6) = substr(a.token, 1,
					instr(substr(a.token, 7), '-') + 6)`)
		s.dismiss()
		for _, table := range []string{"agent_message", "agent_message_archive", "witness"} {
			s.sql(`UPDATE `+table+` SET seq = -seq WHERE message_id IN (?, ?) AND seq IS NOT NULL`, ids[0], ids[1])
			s.sql(`UPDATE `+table+` SET seq = 1 - seq WHERE message_id = ? AND seq < 0`, ids[0])
			s.sql(`UPDATE `+table+` SET seq = -seq - 1 WHERE message_id = ? AND seq < 0`, ids[1])
		}
		return ids[0]
	}},
	{"wrong rung", "ladder", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM witness WHERE change = 'update' AND status = 'retry'
			AND lease_token = ''`)
		s.sql(`UPDATE witness SET next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', next_attempt_at, '+0.001 seconds')
			WHERE change = 'update' AND status = 'retry' AND lease_token = '' AND message_id = ?`, id)
		return id + ": after attempt"
	}},
	{"attempt before its time", "ladder", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM message_trace WHERE event = 'claimed' AND attempt = 2`)
		s.sql(`UPDATE message_trace SET at = (SELECT min(at) FROM message_trace WHERE message_id = ?1
			AND event = 'attempt_failed')
			WHERE message_id = ?1 AND event = 'claimed' AND attempt = 2`, id)
		return id + ": attempt 2 came at"
	}},
	{"given up too soon", "ladder", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM message_trace WHERE event = 'failed' AND attempt = 4
			AND error NOT LIKE '%cannot tell%'`)
		s.sql(`UPDATE message_trace SET attempt = 3 WHERE event = 'failed' AND message_id = ?`, id)
		return id + " was given up after attempt 3 of 4"
	}},
	{"missing trace row", "trace", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM message_trace WHERE event = 'delivered'`)
		row := s.number(`SELECT max(id) FROM message_trace WHERE event = 'delivered' AND message_id = ?`, id)
		s.sql(`DELETE FROM message_trace WHERE id = ?`, row)
		return fmt.Sprintf("rows %d to %d are missing", row, row)
	}},
	{"unwritten creation", "trace", func(s *scene) string { return s.unwrite("created", "") + ": message_trace row" }},
	{"unwritten claim", "state", func(s *scene) string { return s.unwrite("claimed", "") + " became" }},
	{"unwritten end of a lease", "state",
		func(s *scene) string { return s.unwrite("released", "the lease of %") + " became" }},
	{"unwritten failure", "state", func(s *scene) string { return s.unwrite("attempt_failed", "") + " became" }},
	{"unwritten delivery", "state", func(s *scene) string { return s.unwrite("delivered", "") + " became" }},
	{"unwritten reading", "state", func(s *scene) string { return s.unwrite("read", "") + ": read_at is" }},
	{"unwritten archiving", "state",
		func(s *scene) string { return s.unwrite("archived", "") + " left agent_message" }},
	{"unwritten deletion", "state", func(s *scene) string { return s.unwrite("deleted", "") + " left agent_message" }},
	{"trace that disagrees with the table", "state", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM agent_message_archive`)
		s.sql(`UPDATE agent_message_archive SET retry_count = retry_count + 1 WHERE message_id = ?`, id)
		return id + ": retry_count is"
	}},
	{"trace that runs backwards", "trace", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM message_trace WHERE event = 'archived'`)
		s.sql(`UPDATE message_trace SET at = '2001-01-01T00:00:00.000Z' WHERE event = 'archived' AND message_id = ?`,
			id)
		return "of " + id + " is of 2001"
	}},
	{"overlapping leases of a pair", "leases", func(s *scene) string {
		ids := s.batch()
		s.sql(`UPDATE witness SET lease_token = 'another' WHERE change = 'update' AND lease_token <> ''
			AND message_id = ?`, ids[1])
		// While ids[0] and all others of the batch were leased: more than the report lists.
		return ids[1] + " was leased while "
	}},
	{"overlapping leases of a row", "leases", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM witness WHERE change = 'update' AND lease_token <> ''`)
		s.sql(`INSERT INTO witness (change, message_id, traced, status, retry_count, crashes, next_attempt_at,
			lease_token, lease_owner)
			SELECT change, message_id, traced, status, retry_count, crashes, next_attempt_at, 'another', lease_owner
			FROM witness WHERE change = 'update' AND lease_token <> '' AND message_id = ?`, id)
		s.sql(`UPDATE witness SET id = -id WHERE id > (SELECT min(id) FROM witness WHERE lease_token <> ''
			AND message_id = ?1) AND lease_token IS NOT 'another'`, id)
		s.sql(`UPDATE witness SET id = 1000000000 - id WHERE id < 0`)
		return id + " was leased as another while"
	}},
	{"overlapping leases in the trace", "leases", func(s *scene) string {
		ids := s.tracedBatch()
		s.sql(`UPDATE message_trace SET actor = 'another' WHERE event = 'claimed' AND message_id = ?`, ids[1])
		// While ids[0] and all others of the batch were claimed: more than the report lists.
		return "claims " + ids[1] + " while "
	}},
	{"pair that changed places in a file", "arrival order", func(s *scene) string {
		lines := s.lines()
		for i, line := range lines {
			for j := i + 1; j < len(lines); j++ {
				a, b := parse(s.t, line), parse(s.t, lines[j])
				if a.Sender == b.Sender && a.Priority == b.Priority && a.Retries+b.Retries == 0 &&
					!s.climbed(a.MessageID, b.MessageID) {
					lines[i], lines[j] = lines[j], lines[i]
					s.setLines(lines)
					return a.MessageID
				}
			}
		}
		s.t.Fatal("no two lines of one pair")
		return ""
	}},
	{"pair that changed places in an inbox", "arrival order", func(s *scene) string {
		ids := s.victims(`SELECT before || ' ' || message_id FROM (
			    SELECT i.message_id, lag(i.message_id) OVER (PARTITION BY m.sender, m.priority ORDER BY i.id) AS before
			    FROM witness i JOIN witness m ON m.change = 'insert' AND m.message_id = i.message_id
			    WHERE i.change = 'inbox' AND i.recipient = 'inboxed')
			WHERE before IS NOT NULL`)
		s.sql(`UPDATE witness SET message_id = CASE message_id WHEN ?1 THEN ?2 ELSE ?1 END WHERE change = 'inbox'
			AND message_id IN (?1, ?2)`, ids[0], ids[1])
		return ids[0]
	}},
	{"second file in a folder", "arrivals", func(s *scene) string {
		files := s.files()
		f := files[0]                           // the first of many that now arrived late
		s.write("999999-again.json", f.content) // a handwritten ID may not be valid as a file name
		return f.id + " appeared a second time in the folder of boxed"
	}},
	{"file that never arrived", "arrivals", func(s *scene) string {
		f := s.files()[0]
		s.remove(f.name)
		return f.id + " was delivered 1 times and stands 0 times"
	}},
	{"file that is not whole", "arrivals", func(s *scene) string {
		f := s.files()[0]
		s.write(f.name, f.content[:len(f.content)-4])
		return f.id + " was delivered 1 times and stands 0 times"
	}},
	{"file with the content of another", "arrivals", func(s *scene) string {
		files := s.files()
		// The quotes are needed because an ID may contain the token too.
		quoted := func(f takenFile) []byte { return []byte(`"` + f.token + `"`) }
		s.write(files[0].name, bytes.Replace(files[0].content, quoted(files[0]), quoted(files[1]), 1))
		return files[0].id + ": number "
	}},
	{"pair that changed places in a folder", "arrival order", func(s *scene) string {
		a, b := s.filesOfAPair()
		s.chtimes(a.name, b.at)
		s.chtimes(b.name, a.at)
		return a.id + " (seq "
	}},
	{"command run twice", "runs", func(s *scene) string { return s.repeat("worked") + " was run 2 times" }},
	{"command never run", "runs",
		func(s *scene) string { return s.neverRun("worked") + " was delivered 1 times, and 0 runs succeeded" }},
	{"command that failed and was taken for well done", "runs", func(s *scene) string {
		return s.ended("worked", 1) + " was delivered 1 times, and 0 runs succeeded"
	}},
	{"command that asked for another time and was heard wrongly", "runs", func(s *scene) string {
		return s.ended("worked", 75) + ": the trace tells of 1 runs in another way"
	}},
	{"two commands at a time", "runs", func(s *scene) string {
		began, while := s.atOnce()
		return began + " began while " + while
	}},
	{"request repeated", "runs", func(s *scene) string { return s.repeat("posted") + " was run 2 times" }},
	{"request under another id", "runs",
		func(s *scene) string { return s.underAnotherID("posted") + " came under the id msg-another" }},
	{"request never posted", "runs",
		func(s *scene) string { return s.neverRun("posted") + " was delivered 1 times, and 0 runs succeeded" }},
	{"request refused and not given up", "runs", func(s *scene) string {
		return s.ended("posted", 422) + ": the trace tells of 1 runs in another way"
	}},
	{"message given up as refused, and nobody refused it", "runs", func(s *scene) string {
		id := s.victim(refusal)
		s.sql(`UPDATE message_trace SET error = 'the recipient rejected the message' WHERE event = 'attempt_failed'
			AND message_id = ?`, id)
		return id + " was refused "
	}},
	{"put off for too short", "ladder", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM message_trace WHERE error LIKE 'put off until %'`)
		s.sql(`UPDATE message_trace SET at = (SELECT min(at) FROM message_trace WHERE message_id = ?1)
			WHERE message_id = ?1 AND error LIKE 'put off until %'`, id)
		return id + " was put off at "
	}},
	{"pair of which the second was posted first", "arrival order",
		func(s *scene) string { return s.swapRuns("posted") + " (seq " }},
	{"dead letter that nobody was told of", "reports", func(s *scene) string {
		id := s.victim(`SELECT message_id FROM message_trace WHERE event = 'failed'`)
		s.sql(`UPDATE witness SET reply_to = '' WHERE reply_to = ?`, id)
		return id + " died " // more than once if the message was replayed
	}},
	{"message handed out twice", "readings", func(s *scene) string {
		e := *s.handed()
		e.Process, e.IDs = "planted.1", e.IDs[:1]
		s.events = append(s.events, e)
		return e.IDs[0] + " was handed out 2 times"
	}},
	{"message marked as read and never handed out", "readings", func(s *scene) string {
		e := s.handed()
		for i := range s.events {
			if s.events[i].Process == e.Process {
				s.events[i].IDs = nil
			}
		}
		return " was marked as read by " + e.Process // one line for each ID, and the report does not list all
	}},
	{"message that became unread again although its reader ended well", "readings", func(s *scene) string {
		return s.neverRead(s.unread())
	}},
	{"message that became unread again, and the server failed only before its reader began", "readings",
		func(s *scene) string {
			e := s.unread()
			s.failAt(s.began(e) - int64(time.Minute))
			return s.neverRead(e)
		}},
	{"message that became unread again, and the server failed only long after its reader ended", "readings",
		func(s *scene) string {
			e := s.unread()
			s.failAt(e.At + int64(time.Minute))
			return s.neverRead(e)
		}},
	{"message that became unread again because another reader ended, when the server failed", "readings",
		func(s *scene) string {
			e := s.unread()
			s.sql(`UPDATE message_trace SET error = replace(error, '(process ', '(process 1') WHERE event = 'released'
				AND message_id = ?`, e.IDs[0])
			s.failAt(e.At)
			return s.neverRead(e)
		}},
	{"answer that says busy", "exits", func(s *scene) string {
		s.events = append(s.events, history.Event{Kind: history.Fault, Process: "planted.1", Text: "exit status 75"})
		return "planted.1: exit status 75"
	}},
	{"damaged index", "integrity", func(s *scene) string {
		s.sql(`PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = substr(sql, 1, instr(sql, 'WHERE') - 1) WHERE name = 'agent_message_live'`)
		return "agent_message_live"
	}},
}

// TestTortureFindsPlantedBugs tests the checker: it accepts the files of a run as they are, and finds and names each
// planted bug.
func TestTortureFindsPlantedBugs(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	folder := plantable(t)
	t.Cleanup(func() { os.RemoveAll(folder) })
	for _, plant := range plants {
		t.Run(plant.name, func(t *testing.T) {
			s := copied(t, folder)
			names := plant.harm(s)
			result, err := history.Check(t.Context(), torture.Evidence(s.folder, s.events))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range result.Violations {
				if v.Check == plant.check && strings.Contains(v.Text, names) {
					return
				}
			}
			t.Errorf("%s: %q was not found; found: %v", plant.check, names, result.Violations)
		})
	}
	t.Run("record of a reading that the failing server undid", func(t *testing.T) {
		s := copied(t, folder)
		s.failAt(s.unread().At)
		result, err := history.Check(t.Context(), torture.Evidence(s.folder, s.events))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range result.Violations {
			if v.Check == "readings" {
				t.Error(v)
			}
		}
		if result.Undone != 1 {
			t.Errorf("%d records undone, want 1", result.Undone)
		}
	})
}
