package orchestrator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/store"
)

// dumpOf is what a database has of its messages, by payload in place of their random names, in the order of names.
func dumpOf(t *testing.T, r *Router) (dump []string) {
	t.Helper()
	err := r.read(t.Context(), func(c *Conn) error {
		for _, query := range []string{
			`SELECT 'message', payload, * FROM agent_message`,
			`SELECT 'inbox', payload, * FROM agent_inbox`,
			`SELECT 'trace', m.payload, t.* FROM message_trace t JOIN agent_message m USING (message_id)`,
		} {
			names := map[string]string{}
			err := c.query(`SELECT message_id, payload FROM agent_message`, func(row store.Row) error {
				names[row.Text(0)] = row.Text(1)
				return nil
			})
			if err != nil {
				return err
			}
			err = c.query(query, func(row store.Row) error {
				line := strings.Trim(fmt.Sprint(row), "[]")
				for id, payload := range names {
					line = strings.ReplaceAll(line, id, "ID"+payload)
				}
				dump = append(dump, line)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(dump)
	return dump
}

// TestHandOverLeavesTheSameRows: whether a reader gets a few messages by handOver or by way of the inbox shows neither in
// what it gets nor in what stands in the database, whatever the messages are.
func TestHandOverLeavesTheSameRows(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	type result struct {
		handed []Message
		dump   []string
	}
	var results []result
	for _, slow := range []bool{false, true} {
		r := openWithTwo(t)
		r.now, r.transports, r.instance = func() time.Time { return now }, map[string]Transport{"inbox": RealInbox}, "same"
		for i, d := range []Draft{
			{Priority: 1}, {Action: "interrupt", Summary: "now"}, {TTL: time.Hour, ThreadID: "t"}, {}, {Priority: 9, IdempotencyKey: "k"},
		} {
			d.Sender, d.Recipient, d.Payload = "a", "b", json.RawMessage(fmt.Sprintf(`"payload %d"`, i))
			if _, err := r.Send(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		var ms []Message
		err := r.write(t.Context(), func(t *tx) (err error) {
			if _, err = t.Exec(`UPDATE agent_message SET status = 'retry', traced_status = 'retry', retry_count = 2, error_message = 'x', next_attempt_at = created_at
				WHERE payload = '"payload 3"'`); err != nil {
				return err
			}
			if !slow {
				ms, err = t.handOver("b", 10)
				return err
			}
			if _, err = t.deliverForReading("b", nil); err != nil {
				return err
			}
			ms, _, err = t.readUnread(&WaitOptions{Recipient: "b", Limit: 10})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range ms {
			ms[i].ID, ms[i].SpanID, ms[i].TraceID = "", "", ""
		}
		results = append(results, result{ms, withoutNumbers(dumpOf(t, r))})
	}
	fast, slow := results[0], results[1]
	if len(slow.handed) != 5 || !reflect.DeepEqual(fast.handed, slow.handed) {
		t.Errorf("handed over:\n%+v\nby way of the inbox:\n%+v", fast.handed, slow.handed)
	}
	if !slices.Equal(fast.dump, slow.dump) {
		t.Errorf("handed over:\n%s\nby way of the inbox:\n%s", strings.Join(fast.dump, "\n"), strings.Join(slow.dump, "\n"))
	}
}

// withoutNumbers takes the number of a trace row out of its line: only their order within a message is the same.
func withoutNumbers(dump []string) []string {
	for i, line := range dump {
		if rest, ok := strings.CutPrefix(line, "trace"); ok {
			payload, rest, _ := strings.Cut(rest, " ID")
			dump[i] = "trace" + payload[:strings.LastIndexByte(payload, '"')+1] + " ID" + rest
		}
	}
	slices.SortFunc(dump, cmp.Compare)
	return dump
}

// TestHandOverLeavesTheRestToTheInbox: more than may be read, something unread, or a copy that stands in the inbox
// already, and nothing is handed over.
func TestHandOverLeavesTheRestToTheInbox(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]string{
		"more than may be read": `UPDATE agent_message SET recipient = 'b'`,
		"something unread":      `INSERT INTO agent_inbox (recipient, message_id) VALUES ('b', 'by hand')`,
		"a copy that was read":  `INSERT INTO agent_inbox (recipient, message_id, read_at) SELECT 'b', message_id, 'x' FROM agent_message`,
		"an agent nobody knows": `DELETE FROM agents WHERE name = 'b'`,
		"a row that cannot be":  `CREATE TRIGGER no BEFORE UPDATE OF status ON agent_message BEGIN SELECT RAISE(ABORT, 'no'); END`,
	} {
		t.Run(name, func(t *testing.T) {
			r := openWithTwo(t)
			r.transports = map[string]Transport{"inbox": RealInbox}
			for _, recipient := range []string{"b", "a"} {
				if _, err := r.Send(t.Context(), Draft{Sender: "a", Recipient: recipient}); err != nil {
					t.Fatal(err)
				}
			}
			var ms []Message
			err := r.write(t.Context(), func(t *tx) error {
				if _, err := t.Exec(prepare); err != nil {
					return err
				}
				return t.configChanged()
			})
			if err != nil {
				t.Fatal(err)
			}
			before := dumpOf(t, r)
			err = r.write(t.Context(), func(t *tx) (err error) {
				ms, err = t.handOver("b", 1)
				return err
			})
			if err != nil || ms != nil {
				t.Errorf("handed over %v, %v", ms, err)
			}
			if after := dumpOf(t, r); !slices.Equal(before, after) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
		})
	}
}
