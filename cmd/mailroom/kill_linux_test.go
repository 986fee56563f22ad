package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/helper"
)

// recipient is an agent with a transport, and the function that lists its messages.
type recipient struct {
	name, scheme string
	repeats      bool // it may get a message again, under the same ID
	arrived      func(s *surgery) []string
}

var recipients = []recipient{
	{"boxed", "inbox", false, func(s *surgery) []string {
		return s.rows(`SELECT message_id FROM agent_inbox WHERE recipient = 'boxed' ORDER BY rowid`)
	}},
	{"lined", "jsonl", false, func(s *surgery) []string { return s.idsOfLines("lined.jsonl", true) }},
	{"lettered", "dir", false, func(s *surgery) []string { return s.letters }},
	{"executed", "exec", true, func(s *surgery) []string { return s.idsOfLines("executed.lines", false) }},
	{"hooked", "webhook", true, func(s *surgery) []string { return s.calls() }},
}

// surgery is an office in which couriers are killed.
type surgery struct {
	*office
	recipients []recipient
	folder     string
	sender     *sender
	sent       map[string][]string // IDs by recipient, in the order of sending
	from       map[string]string   // sender by ID
	held       map[string]int      // how often a courier was killed while it held the message
	letters    []string            // taken by a reader from the folder of letters

	mu    sync.Mutex
	posts []string // IDs of the messages posted to the webhook
}

func newSurgery(t *testing.T, schemes ...string) *surgery {
	t.Helper()
	enginetest.OfAFile(t, "there a courier is found dead after a while only, see TestTortureOnAServer")
	folder := t.TempDir()
	s := &surgery{
		office: newOfficeOf(t, "mailroom", folder, "ann", "bob"), folder: folder,
		sent: map[string][]string{}, from: map[string]string{}, held: map[string]int{},
	}
	hook := httptest.NewServer(http.HandlerFunc(s.post))
	t.Cleanup(hook.Close)
	file := filepath.Join(folder, "executed")
	targets := map[string][]string{
		"inbox":   {"inbox"},
		"jsonl":   {"jsonl:" + filepath.Join(folder, "lined.jsonl")},
		"dir":     {"dir:" + filepath.Join(folder, "letters")},
		"exec":    {fmt.Sprintf(`exec:echo "$MAILROOM_MESSAGE_ID" >> '%[1]s.ids'; cat >> '%[1]s.lines'`, file)},
		"webhook": {"webhook:" + hook.URL, "--allow-private"},
	}
	for _, r := range recipients {
		if slices.Contains(schemes, r.scheme) {
			s.recipients = append(s.recipients, r)
			s.run(append([]string{"agent", "add", r.name, "--deliver"}, targets[r.scheme]...)...)
		}
	}
	var err error
	if s.sender, err = s.startSender(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.sender.in.Close()
		if err := s.sender.cmd.Wait(); err != nil {
			t.Errorf("the sender: %v", err)
		}
	})
	return s
}

// post is the webhook.
func (s *surgery) post(_ http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	var event struct {
		ID string `json:"id"`
	}
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	if id := q.Header.Get("webhook-id"); err != nil || id != event.ID {
		s.t.Errorf("the webhook got %q under the id %q: %v", body, id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts = append(s.posts, event.ID)
}

func (s *surgery) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.posts)
}

// idsOfLines returns the IDs in a file of lines, in order. A line that is not JSON was left by a writer that was
// killed, and readers skip it; torn is set if there may be such lines.
func (s *surgery) idsOfLines(name string, torn bool) (ids []string) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.folder, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var m struct {
			ID string `json:"message_id"`
		}
		switch err := json.Unmarshal([]byte(line), &m); {
		case err == nil:
			ids = append(ids, m.ID)
		case !torn:
			s.t.Errorf("%s: %v in %.200q", name, err, line)
		}
	}
	return ids
}

// takeLetters reads the folder of letters: it takes away every file immediately.
func (s *surgery) takeLetters() {
	s.t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.folder, "letters", "lettered", "*.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range paths { // in order of IDs, which is that of sending
		text, err := os.ReadFile(path)
		var letter struct {
			ID string `json:"id"`
		}
		if err == nil {
			err = json.Unmarshal(text, &letter)
		}
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			s.t.Fatalf("%s: %v: %.200q", path, err, text)
		}
		s.letters = append(s.letters, letter.ID)
	}
}

// send sends some messages to each recipient of the run.
func (s *surgery) send(random *rand.Rand) {
	s.t.Helper()
	for _, r := range s.recipients {
		for range 1 + random.IntN(3) {
			from := []string{"ann", "bob"}[random.IntN(2)]
			if err := s.sender.say(from, r.name,
				fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", random.IntN(2000)))); err != nil {
				s.t.Fatal(err)
			}
			id, ok, err := s.sender.heard()
			if !ok || err != nil {
				s.t.Fatalf("the sender has ended: %v", err)
			}
			s.sent[r.name] = append(s.sent[r.name], id)
			s.from[id] = from
		}
	}
}

// operate starts a courier and kills it when enough accepts the lines that it has printed, or lets it run to its end.
func (s *surgery) operate(where string, claim int, enough func(said [][]string) bool) (killed bool) {
	s.t.Helper()
	courier := *s.office
	courier.program = "courier"
	cmd := courier.command(where, fmt.Sprint(claim))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	var said [][]string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if words[0] == "failed" {
			s.t.Error(lines.Text())
		}
		if said = append(said, words); !killed && enough(said) {
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil && !killed {
		s.t.Fatalf("the courier: %v", err)
	}
	return killed
}

// cut sends messages, lets a courier reach the place where it is to be killed with every recipient that is due, and
// kills it there.
func (s *surgery) cut(where string, random *rand.Rand) {
	s.t.Helper()
	s.send(random)
	held := 0
	killed := s.operate(where, 1+random.IntN(3), func(said [][]string) bool {
		words := said[len(said)-1]
		if words[0] == "held" {
			held++
			for _, id := range words[3:] {
				s.held[id]++
			}
		}
		return held == len(s.recipients)
	})
	if !killed {
		s.t.Fatal("the courier came to its end before it could be killed")
	}
	s.takeLetters()
}

// finish delivers the remaining messages, and compares the arrived messages with those that were sent.
func (s *surgery) finish() {
	s.t.Helper()
	const left = `SELECT count(*) FROM agent_message WHERE status IN ('pending', 'retry')`
	for s.rows(left)[0] != "0" && !s.t.Failed() {
		// A program that outlived its courier still prevents others from starting.
		s.operate("nowhere", 100, func([][]string) bool { return false })
	}
	s.takeLetters()
	for _, r := range s.recipients {
		s.checkArrived(&r, r.arrived(s))
	}
	for _, row := range s.rows(`SELECT message_id, status, retry_count, error_message FROM agent_message
		WHERE status <> 'delivered' OR retry_count > 0`) {
		s.t.Errorf("not delivered at the first attempt: %s", row)
	}
	if got := s.idsOfProgram(); !slices.Equal(got, s.idsOfLines("executed.lines", false)) {
		s.t.Errorf("the program was told of %v, and got others", got)
	}
	s.checkHistory()
}

func (s *surgery) idsOfProgram() []string {
	text, err := os.ReadFile(filepath.Join(s.folder, "executed.ids"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// checkArrived checks that everything has arrived, in the order of each sender, and that nothing has arrived twice
// that must not.
func (s *surgery) checkArrived(r *recipient, ids []string) {
	s.t.Helper()
	count, last := map[string]int{}, map[string]string{}
	for _, id := range ids {
		from := s.from[id]
		if id < last[from] { // IDs are created in order
			s.t.Errorf("%s: %s came after %s", r.name, id, last[from])
		}
		last[from] = id
		count[id]++
	}
	for _, id := range s.sent[r.name] {
		if n := count[id]; n == 0 || n > 1 && !r.repeats {
			s.t.Errorf("%s: %s arrived %d times", r.name, id, n)
		}
		delete(count, id)
	}
	for id := range count {
		s.t.Errorf("%s: %s arrived and was not sent to it", r.name, id)
	}
}

// checkCrashes checks that every kill of a courier that held a message is counted in the message's row, and that
// recipients that may get a message again got it once for each kill.
func (s *surgery) checkCrashes() {
	s.t.Helper()
	for _, row := range s.rows(`SELECT message_id, crashes FROM agent_message`) {
		if id, crashes, _ := strings.Cut(row, "|"); crashes != fmt.Sprint(s.held[id]) {
			s.t.Errorf("%s: %s crashes are counted; there were %d", id, crashes, s.held[id])
		}
	}
	for _, r := range s.recipients {
		if !r.repeats {
			continue
		}
		for _, id := range r.arrived(s) {
			s.held[id]--
		}
		for _, id := range s.sent[r.name] {
			if s.held[id] != -1 {
				s.t.Errorf("%s: %s arrived %d times too often", r.name, id, -1-s.held[id])
			}
		}
	}
}

// killsOfCouriers returns how often each of these tests kills.
func killsOfCouriers() int { return helper.Times(200) }

// TestKilledBeforeSettling kills couriers that have delivered and not recorded it yet, each time with all transports
// at the same time. Transports that can detect a repetition deliver once; the others repeat a message under its ID.
func TestKilledBeforeSettling(t *testing.T) {
	t.Parallel()
	s := newSurgery(t, "jsonl", "dir", "exec", "webhook")
	random := rand.New(rand.NewPCG(1, 5))
	for range killsOfCouriers() {
		s.cut("settling", random)
	}
	s.finish()
	s.checkCrashes()
}

// TestKilledAfterMark kills couriers that have stored the mark of a delivery that has not begun.
func TestKilledAfterMark(t *testing.T) {
	t.Parallel()
	s := newSurgery(t, "jsonl", "dir")
	random := rand.New(rand.NewPCG(2, 5))
	for range killsOfCouriers() {
		s.cut("marked", random)
	}
	s.finish()
	s.checkCrashes()
}

// TestKilledWithFullInbox kills couriers that have inserted messages into inboxes without a commit.
func TestKilledWithFullInbox(t *testing.T) {
	t.Parallel()
	s := newSurgery(t, "inbox")
	random := rand.New(rand.NewPCG(3, 5))
	for range killsOfCouriers() {
		s.cut("inbox", random)
	}
	s.finish()
	s.checkCrashes()
}

// TestKilledAnywhere kills couriers after they have passed a number of places.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	schemes := slices.Collect(maps.Keys(transports()))
	// No agent has push or ntfy.
	schemes = slices.DeleteFunc(schemes, func(s string) bool { return s == "push" || s == "ntfy" })
	s := newSurgery(t, schemes...)
	if len(s.recipients) != len(schemes) {
		t.Fatal("there is a transport that nobody is killed with")
	}
	s.run("setting", "set", "delivery.crashes_per_rung", "100") // some messages will crash often
	random := rand.New(rand.NewPCG(4, 5))
	killed := 0
	for range killsOfCouriers() {
		s.send(random)
		places := 1 + random.IntN(12)
		if s.operate("nowhere", 1+random.IntN(3), func(said [][]string) bool { return len(said) >= places }) {
			killed++
		}
		s.takeLetters()
	}
	t.Logf("%d killed", killed)
	s.finish()
}
