package kills

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mailroom/orchestrator/orchestratortest/history"
)

// writer is the sender of all messages.
const writer = "writer"

// mail records the sent messages and the agents to which they were shown. It is safe for concurrent use.
type mail struct {
	mu    sync.Mutex
	last  int
	fates map[fateKey]*fate
}

// fateKey identifies a message for one agent. The text of a message begins and ends with its number.
type fateKey struct {
	agent  string
	number int
}

type fate struct {
	id      string
	post    bool
	shown   int
	glimpse int // how often an answer contained it but was cut off after it
}

// next returns the number of a message, and a text of about size bytes.
func (m *mail) next(size int) (number int, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	return m.last, fmt.Sprintf("kt%db %s kt%de", m.last, strings.Repeat("letter ", size/7), m.last)
}

// sent records a message that is on disk.
func (m *mail) sent(number int, id string, post bool, agents ...*agent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fates == nil {
		m.fates = map[fateKey]*fate{}
	}
	for _, a := range agents {
		f := m.fates[fateKey{a.name, number}]
		if f == nil { // the message may have been shown already
			f = &fate{}
			m.fates[fateKey{a.name, number}] = f
		}
		f.id, f.post = id, post
	}
}

func (m *mail) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.fates)
}

var (
	begins = regexp.MustCompile(`kt(\d+)b`)
	ends   = regexp.MustCompile(`kt(\d+)e`)
)

// shown records the messages in an answer to an agent, and returns their number.
func (m *mail) shown(a answer) int {
	marks := begins
	if !a.whole {
		marks = ends
	}
	numbers := map[int]bool{}
	for _, found := range marks.FindAllSubmatch(a.text, -1) {
		n, _ := strconv.Atoi(string(found[1]))
		numbers[n] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fates == nil {
		m.fates = map[fateKey]*fate{}
	}
	for n := range numbers {
		f := m.fates[fateKey{a.agent, n}]
		if f == nil {
			f = &fate{}
			m.fates[fateKey{a.agent, n}] = f
		}
		if a.whole {
			f.shown++
		} else {
			f.glimpse++
		}
	}
	return len(numbers)
}

// judge completes a report. It looks up the state of each message in the table, as another program does.
func (m *mail) judge(ctx context.Context, database string, r *Report) error {
	db, err := history.OpenPlain(database, 30*time.Second)
	if err != nil {
		return err
	}
	defer db.Close()
	read := map[[2]string]bool{} // by agent and message
	rows, err := db.QueryContext(ctx, `
		SELECT recipient, message_id FROM agent_message WHERE read_at <> ''
		UNION ALL SELECT p.agent, m.message_id FROM agent_message m
			JOIN thread_participants p ON p.thread_id = m.thread_id AND p.read_seq >= m.seq`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key [2]string
		if err := rows.Scan(&key[0], &key[1]); err != nil {
			return err
		}
		read[key] = true
	}
	for key, f := range m.fates {
		r.Sent++
		what := fmt.Sprintf("%s to %s (number %d)", f.id, key.agent, key.number)
		switch {
		case f.id == "":
			return fmt.Errorf("number %d was shown to %s and never sent", key.number, key.agent)
		case f.shown > 1:
			r.Twice++
			r.Repeats += f.shown - 1
		case f.shown == 0 && read[[2]string{key.agent, f.id}]:
			r.Unseen = append(r.Unseen, what)
			if f.glimpse > 0 {
				r.Glimpsed++
			}
		case f.shown == 0:
			r.Stuck = append(r.Stuck, what)
		}
	}
	slices.Sort(r.Unseen)
	slices.Sort(r.Stuck)
	return rows.Err()
}

// feeder is a process that sends.
type feeder struct {
	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (o *office) startFeeder() (*feeder, error) {
	f := &feeder{cmd: exec.Command(o.Program[0], append(slices.Clone(o.Program[1:]), "send", "--stdin")...)}
	f.cmd.Env = o.environment()
	var err error
	if f.in, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	f.out = bufio.NewReader(out)
	return f, f.cmd.Start()
}

func (f *feeder) stop() error {
	f.in.Close()
	return f.cmd.Wait()
}

// send sends texts to an agent, and returns the IDs of the messages when they are on disk.
func (f *feeder) send(to string, texts []string) (ids []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, text := range texts {
		if _, err := fmt.Fprintf(f.in, `{"sender":%q,"recipient":%q,"message_type":"note","payload":{"text":%q}}`+"\n",
			writer, to, text); err != nil {
			return nil, err
		}
	}
	for range texts {
		line, err := f.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var told struct {
			Success   bool
			MessageID string `json:"message_id"`
		}
		if err := json.Unmarshal(line, &told); err != nil || !told.Success {
			return nil, fmt.Errorf("a send was answered %s: %w", line, err)
		}
		ids = append(ids, told.MessageID)
	}
	return ids, nil
}

// feed sends the messages for a reader: a few short ones, or two long ones if the reader should get stuck.
func (o *office) feed(d *door, v *visit) error {
	n, size := 1+v.random.IntN(4), 100
	if v.stuck {
		n, size = 2, 6000+v.random.IntN(10000)
	}
	if d.posts && v.random.IntN(2) == 0 {
		return o.post(size)
	}
	numbers, texts := make([]int, n), make([]string, n)
	for i := range n {
		numbers[i], texts[i] = o.mail.next(size)
	}
	ids, err := o.feeder.send(v.name, texts)
	for i, id := range ids {
		o.mail.sent(numbers[i], id, false, v.agent)
	}
	return err
}

// post posts a message in the thread, where every agent finds it.
func (o *office) post(size int) error {
	number, text := o.mail.next(size)
	var told struct{ ID string }
	err := o.answer(&told, "coral", "send-message", "--as", writer, "--thread-id", o.thread, "--content", text)
	if err == nil {
		o.mail.sent(number, told.ID, true, o.agents...)
	}
	return err
}
