package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator/orchestratortest/history"
)

// restWithin is the maximum time that a run may take to come to rest.
const restWithin = 5 * time.Minute

// rest brings the run to rest: the leases of killed processes expire, and every message is delivered or given up.
// Then another process rings the bell, which removes the files that killed processes left in its folder.
func (o *office) rest() error {
	ctx, cancel := context.WithTimeout(o.done, restWithin)
	defer cancel()
	if running := o.register.all(); len(running) > 0 {
		return fmt.Errorf("%d processes still run", len(running))
	}
	o.say("coming to rest: %d sends acknowledged, %d processes killed", o.log.Count(history.Acknowledged),
		o.log.Count(history.Killed))
	for {
		left, err := o.undelivered(ctx)
		if err != nil {
			return err
		}
		if left == 0 {
			break
		}
		if _, err := o.command(ctx, "undertaker", "deliver_all"); err != nil {
			return fmt.Errorf("%d messages are left that no delivery takes: %w", left, err)
		}
		pause(ctx, 50*time.Millisecond)
	}
	if err := o.ageSockets(); err != nil {
		return err
	}
	return o.sendLast(ctx)
}

// sendLast sends and delivers one more message.
func (o *office) sendLast(ctx context.Context) error {
	e := history.Event{
		At: time.Now().UnixNano(), Kind: history.Asked, Process: "undertaker", Lane: "last", Token: "last",
		Sender: "ann", Recipient: "bob",
	}
	o.log.Add(e)
	out, err := o.command(ctx, "undertaker", "send", "--sender", e.Sender, "--recipient", e.Recipient, "--message-type",
		"note",
		"--payload", `{"token":"last"}`)
	if err != nil {
		return err
	}
	var answer struct {
		MessageID string `json:"message_id"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return err
	}
	o.log.Add(history.Event{Kind: history.Acknowledged, Process: "undertaker", Token: e.Token,
		MessageID: answer.MessageID})
	if _, err = o.command(ctx, "undertaker", "deliver_all"); err != nil {
		return err
	}
	return o.recount(ctx)
}

// recount compares the counts of stats with the trace, and the counts of status with the rows.
func (o *office) recount(ctx context.Context) error {
	if err := o.compareStats(ctx); err != nil {
		return err
	}
	out, err := o.command(ctx, "undertaker", "recount")
	var answer struct{ Corrected []string }
	if err == nil {
		err = json.Unmarshal(out, &answer)
	}
	if err == nil && len(answer.Corrected) > 0 {
		err = fmt.Errorf("status has miscounted: %s", strings.Join(answer.Corrected, ", "))
	}
	return err
}

// compareStats compares the counts of stats with the trace.
func (o *office) compareStats(ctx context.Context) error {
	db, err := history.OpenPlain(o.db, 30*time.Second)
	if err != nil {
		return err
	}
	defer db.Close()
	var sent, delivered, read int64
	if err := db.QueryRowContext(ctx, `
		SELECT count(*) FILTER (WHERE event = 'created'), count(*) FILTER (WHERE event = 'delivered'),
			count(*) FILTER (WHERE event = 'read')
		FROM message_trace e JOIN (
		    SELECT message_id, max(recipient) AS recipient FROM (
		        SELECT message_id, recipient FROM agent_message
		        UNION ALL SELECT message_id, recipient FROM agent_message_archive
		        UNION ALL SELECT message_id, json_extract(detail, '$.recipient') FROM message_trace
		        	WHERE event = 'deleted') x
		    GROUP BY message_id) m USING (message_id)
		WHERE m.recipient NOT LIKE 'thread:%'`).Scan(&sent, &delivered, &read); err != nil {
		return err
	}
	out, err := o.command(ctx, "undertaker", "stats", "--since", "1d")
	if err != nil {
		return err
	}
	var answer struct {
		Total struct{ Sent, Delivered, Read int64 } `json:"total"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return err
	}
	if t := answer.Total; t.Sent != sent || t.Delivered != delivered || t.Read != read {
		return fmt.Errorf("stats has %d sent, %d delivered and %d read; the trace %d, %d and %d", t.Sent, t.Delivered,
			t.Read, sent, delivered, read)
	}
	return nil
}

// undelivered ends all leases, because no living process holds one, and returns the number of messages that are still
// to be delivered.
func (o *office) undelivered(ctx context.Context) (left int, err error) {
	db, err := history.OpenPlain(o.db, 30*time.Second)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx,
		`UPDATE agent_message SET lease_until = '2000-01-01T00:00:00.000Z' WHERE status IN ('pending','retry')
			AND lease_token <> ''`); err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM agent_message WHERE status IN ('pending','retry')`).Scan(&left)
	return left, err
}

// ageSockets sets the modification times of the remaining sockets into the past, so that they count as abandoned.
func (o *office) ageSockets() error {
	names, err := os.ReadDir(o.db + "-bell")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		before := time.Now().Add(-time.Minute)
		if terr := os.Chtimes(filepath.Join(o.db+"-bell", name.Name()), before, before); err == nil {
			err = terr
		}
	}
	return err
}

// leftovers lists anything that should not exist when no process has the database open: processes, open files,
// sockets, held locks, and undocumented files.
func (o *office) leftovers() (left []string) {
	for _, p := range o.register.all() {
		left = append(left, "the process "+p.name+" runs")
	}
	left = append(left, holders(o.Folder)...)
	names, err := os.ReadDir(o.db + "-bell")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		left = append(left, err.Error())
	}
	for _, name := range names {
		left = append(left, "the socket "+filepath.Join(o.db+"-bell", name.Name()))
	}
	err = filepath.WalkDir(o.Folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch from, _ := filepath.Rel(o.Folder, path); {
		case strings.HasPrefix(from, ".local/state/mailroom/trusted/"): // marks the database as created here
		case from == databaseName, from == historyName, from == seedName, from == addressName,
			strings.HasSuffix(from, ".jsonl"):
		case strings.HasSuffix(from, ".sock"), // of a killed daemon; the next daemon replaces it
			strings.HasPrefix(from, ".s") && strings.HasSuffix(from, "/s"): // or removes it, if it had no name yet
		case strings.HasPrefix(from, takenName+"/"), isBox(from):
		case from == databaseName+"-turnstile", strings.HasSuffix(from, ".jsonl.lock"): // stay, as documented
			left = append(left, held(path)...)
			left = append(left, full(path)...)
		case strings.HasPrefix(from, ".local/state/mailroom/") && strings.Contains(from, "/mailroom-slots/"): // of a server's database
			left = append(left, held(path)...)
		case strings.HasPrefix(from, databaseName+"-slots/"): // stays, and names its last holder
			left = append(left, held(path)...)
		default:
			left = append(left, "the file "+path)
		}
		return nil
	})
	if err != nil {
		left = append(left, err.Error())
	}
	return left
}

// isBox reports whether a file belongs to a dir transport: a message of one of its agents, the README in its staging
// folder, or a staged file. Staged files remain if a process was killed and the message was given up before another
// process could write it.
func isBox(from string) bool {
	for _, root := range []string{filepath.Join(solidName, boxName), filepath.Join(shakyName, boxName)} {
		for _, pattern := range []string{"*/*.json", ".mailroom/README", ".mailroom/*-*-*"} {
			if match, _ := filepath.Match(filepath.Join(root, pattern), from); match {
				// The only possible error is a malformed pattern.
				return true
			}
		}
	}
	return false
}

// full reports a lock file that is not empty.
func full(path string) []string {
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		return []string{path + " is not empty"}
	}
	return nil
}

// held reports a lock file that is locked.
func held(path string) (left []string) {
	file, err := os.Open(path)
	if err != nil {
		return []string{err.Error()}
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		left = append(left, fmt.Sprintf("a lock on %s: %v", path, err))
	}
	return left
}

// holders lists the processes that have a file below folder open, according to /proc.
func holders(folder string) (left []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the only possible error is a malformed pattern
	for _, link := range links {
		target, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(target, folder+"/") {
			left = append(left, fmt.Sprintf("%s is open (%s)", target, link))
		}
	}
	return left
}
