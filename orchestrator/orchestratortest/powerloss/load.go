package powerloss

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// Load is the workload that runs under the recorder. The driver, which also runs under strace, gets it as JSON.
type Load struct {
	Program string // path of mailroom
	// Root is an empty folder. Its path is absolute and has no symbolic links. All files that count are in it.
	Root     string
	Seed     uint64
	Messages int // the number of messages from each of the three streams of senders
}

func (l *Load) database() string { return filepath.Join(l.Root, "office", "mailroom.db") }

// recipients lists the recipients of the load: two inboxes, two files and a folder.
var recipients = []string{"inbox_one", "inbox_two", "file_one", "file_two", "folder_one"}

// jsonlFiles lists the paths of the two files, relative to the root. letters is the path of the folder.
var jsonlFiles = []string{"one.jsonl", "two.jsonl"}

const letters = "letters"

// Drive runs the load to its end. It is the main function of the driver process.
func Drive(ctx context.Context, l Load) error {
	d := &driver{Load: l, ctx: ctx}
	if err := d.furnish(); err != nil {
		return err
	}
	daemon, err := d.start("serve")
	if err != nil {
		return err
	}
	var senders, others sync.WaitGroup
	ended := make(chan struct{})
	for i := range 3 {
		senders.Go(func() { d.note(d.stream(d.lines(uint64(i)))) })
	}
	for range 2 { // the same keys: one of the two stores a message, and the other answers with that message
		senders.Go(func() { d.note(d.stream(d.keyed())) })
	}
	senders.Go(func() { d.note(d.oneShots()) })
	for i, name := range recipients[:2] {
		others.Go(func() { d.note(d.waits(name, uint64(i), ended)) })
	}
	others.Go(func() { d.note(d.upkeep(ended)) })
	others.Go(func() { d.note(d.repeat(ended, []string{"checkpoint"})) })
	senders.Wait()
	close(ended)
	others.Wait()
	d.note(daemon.Process.Signal(syscall.SIGTERM))
	d.note(daemon.Wait())
	return errors.Join(d.errs...)
}

type driver struct {
	Load
	ctx  context.Context
	mu   sync.Mutex
	errs []error
}

func (d *driver) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.errs = append(d.errs, err)
	}
}

func (d *driver) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(d.ctx, d.Program, args...)
	cmd.Env = append(os.Environ(), "MAILROOM_DB="+d.database(), "MAILROOM_AGENT=", "HOME="+d.Root, "XDG_STATE_HOME=")
	cmd.Stderr = os.Stderr
	return cmd
}

func (d *driver) start(args ...string) (*exec.Cmd, error) {
	cmd := d.command(args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_, err = bufio.NewReader(out).ReadString('\n') // the first line reports that the daemon is ready
	return cmd, err
}

// run runs one command and waits for its end.
func (d *driver) run(args ...string) ([]byte, error) {
	out, err := d.command(args...).Output()
	if err != nil {
		return out, fmt.Errorf("mailroom %q: %w: %s", args, err, out)
	}
	return out, nil
}

// furnish creates the database and its agents.
func (d *driver) furnish() error {
	for _, args := range [][]string{
		{"--db", d.database(), "init"}, {"agent", "add", "writer"}, {"agent", "add", recipients[0]},
		{"agent", "add", recipients[1]},
		{"agent", "add", recipients[2], "--deliver", "jsonl:" + filepath.Join(d.Root, jsonlFiles[0])},
		{"agent", "add", recipients[3], "--deliver", "jsonl:" + filepath.Join(d.Root, jsonlFiles[1])},
		{"agent", "add", recipients[4], "--deliver", "dir:" + filepath.Join(d.Root, letters)},
	} {
		if _, err := d.run(args...); err != nil {
			return err
		}
	}
	return nil
}

// lines returns the lines of one sender, in bursts.
func (d *driver) lines(n uint64) iter.Seq[[][]byte] {
	random := rand.New(rand.NewPCG(d.Seed, n))
	return func(yield func([][]byte) bool) {
		for left := d.Messages; left > 0; {
			burst := make([][]byte, min(left, 1+random.IntN(8)*random.IntN(3)))
			left -= len(burst)
			for i := range burst {
				burst[i] = message(random, left+i)
			}
			if !yield(burst) {
				return
			}
		}
	}
}

// keyed returns lines with idempotency keys. The lines are the same for every call.
func (d *driver) keyed() iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		for i := range d.Messages / 3 {
			line := fmt.Sprintf(`{"sender":"writer","recipient":%q,"message_type":"note","payload":%d,"idempotency_key":"key-%d"}`,
				recipients[i%len(recipients)], i, i)
			if !yield([][]byte{[]byte(line)}) {
				return
			}
		}
	}
}

// stream runs `send --stdin` with bursts of lines. It waits for the answers to each burst before it sends the next
// burst.
func (d *driver) stream(bursts iter.Seq[[][]byte]) error {
	cmd := d.command("send", "--stdin")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	answers := bufio.NewScanner(out)
	answers.Buffer(nil, 4<<20)
	for burst := range bursts {
		for _, line := range burst {
			if _, err := fmt.Fprintf(in, "%s\n", line); err != nil {
				return err
			}
		}
		for range burst {
			if !answers.Scan() {
				return fmt.Errorf("send --stdin ended early: %v", answers.Err())
			}
		}
	}
	return errors.Join(in.Close(), cmd.Wait())
}

// message returns one line for `send --stdin`. Some lines are longer than a page.
func message(random *rand.Rand, n int) []byte {
	text := make([]byte, random.IntN(200))
	if random.IntN(20) == 0 {
		text = make([]byte, random.IntN(12000))
	}
	for i := range text {
		text[i] = "abcdefgh"[random.IntN(8)]
	}
	line, _ := json.Marshal(map[string]any{
		"sender": "writer", "recipient": recipients[random.IntN(len(recipients))], "message_type": "note",
		"payload": map[string]any{"n": n, "text": string(text)},
	})
	return line
}

// oneShots sends each message with a process of its own. Some messages have an unknown recipient, and are refused and
// kept as dead letters.
func (d *driver) oneShots() error {
	for i := range d.Messages / 10 {
		to := recipients[i%len(recipients)]
		if i%5 == 4 {
			to = "nobody"
		}
		out, err := d.run("send", "--sender", "writer", "--recipient", to, "--message-type", "note", "--payload",
			fmt.Sprint(i))
		if refused := bytes.Contains(out, []byte(`"unknown_recipient"`)); refused != (to == "nobody") {
			return err
		}
	}
	return nil
}

// waits reads an inbox until the senders have ended, and acknowledges some of the messages.
func (d *driver) waits(name string, n uint64, ended <-chan struct{}) error {
	random := rand.New(rand.NewPCG(d.Seed, 100+n))
	for round := 0; ; round++ {
		select {
		case <-ended:
			return nil
		default:
		}
		out, err := d.run("wait", "--recipient", name, "--timeout", "1s", "--batch-size", fmt.Sprint(1+random.IntN(20)))
		if err != nil {
			return err
		}
		var answer struct {
			Messages []struct {
				MessageID string `json:"message_id"`
			} `json:"messages"`
		}
		if err := json.Unmarshal(out, &answer); err != nil {
			return err
		}
		if len(answer.Messages) > 0 && round%4 == 0 {
			if _, err := d.run("acknowledge", answer.Messages[0].MessageID); err != nil {
				return err
			}
		}
	}
}

// upkeep runs commands that shrink and copy the database until the senders have ended.
func (d *driver) upkeep(ended <-chan struct{}) error {
	return d.repeat(ended,
		[]string{"clear_old", "--older-than-days", "0"}, []string{"checkpoint", "--truncate"}, []string{"deliver_all"},
		[]string{"backup", filepath.Join(d.Root, "backup.db"), "--overwrite"})
}

// repeat runs commands in turn until the senders have ended.
func (d *driver) repeat(ended <-chan struct{}, commands ...[]string) error {
	for i := 0; ; i++ {
		select {
		case <-ended:
			return nil
		default:
		}
		if _, err := d.run(commands[i%len(commands)]...); err != nil {
			return err
		}
	}
}

// ReadLoad decodes a Load from JSON.
func ReadLoad(from io.Reader) (l Load, err error) {
	err = json.NewDecoder(from).Decode(&l)
	return l, err
}

// Sends returns the number of messages that the load stores and answers, including those to unknown recipients.
func (l *Load) Sends() int { return 3*l.Messages + l.Messages/3 + l.Messages/10 }
