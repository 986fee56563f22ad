//go:build unix

package transport

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/program"
)

// Exec runs a command for each message, or for each batch of them. Its address is the command, for `sh -c`: `--deliver
// exec:COMMAND`. It runs in the agent's folder and gets each message as one line of JSON on its standard input, the
// line that JSONL writes. What it prints is kept in the trace, the first and the last program.TailSize bytes.
//
// Exit status 0: the messages are delivered, all of the batch. 75: they are to be tried later, which costs nothing. 65
// to 69, of a run with one message: it is refused for good. Any other, or a signal: the attempt failed. At the delivery
// timeout the command and all that it started get SIGTERM, and SIGKILL after Grace; then the attempt has failed,
// whatever the exit status.
//
// Nothing of a message is ever part of the command. The environment tells of it: MAILROOM_MESSAGE_ID, MAILROOM_SENDER,
// MAILROOM_MESSAGE_TYPE, MAILROOM_THREAD_ID, MAILROOM_REPLY_TO, MAILROOM_PRIORITY (-9 to 9), MAILROOM_ATTEMPT (from 1)
// and TRACEPARENT are those of the first message, MAILROOM_MESSAGE_IDS lists the ids, a line each, and MAILROOM_BATCH
// counts them. MAILROOM_AGENT and MAILROOM_RECIPIENT name the agent, MAILROOM_AGENT_SINCE says when it was added, and
// MAILROOM_DB names the database, so that `mailroom` within the command acts as the agent. The variables are cut at
// program.MaxValue; standard input is not. Of our own environment the command gets what Attempt.PassEnv lists.
//
// A command that runs when its agent approves a shutdown is ended in the same way. The request has arrived, then; what
// else it was about is tried later.
//
// A message may come again after a crash, with the same id: until the command of a killed process has ended, no second
// one starts for the agent.
type Exec struct {
	Grace time.Duration // from SIGTERM to SIGKILL; 0: 5 s
}

const (
	maxCommandBatch = 1000
	killGrace       = 5 * time.Second
	tryLaterStatus  = 75 // EX_TEMPFAIL of sysexits.h

	// From EX_DATAERR to EX_UNAVAILABLE of sysexits.h: the message is such that trying again cannot help.
	firstRefusal = 65
	lastRefusal  = 69
)

// Check checks a command that runs in the present folder; see CheckIn.
func (e Exec) Check(address string) (string, error) { return e.CheckIn("", address) }

// CheckIn checks that the shell can read a command and finds its program from a folder, as far as that can be told
// without running it; see program.Check.
func (Exec) CheckIn(folder, address string) (string, error) {
	command := strings.TrimSpace(address)
	if command == "" {
		return "", errors.New("no command given; write exec:COMMAND")
	}
	return command, program.Check(command, folder)
}

// IsRooted reports true: a command is on one machine.
func (Exec) IsRooted(string) bool { return true }

// MaxBatch is the most messages of one run.
func (Exec) MaxBatch() int { return maxCommandBatch }

// UsualBatch is one: a command for each message.
func (Exec) UsualBatch() int { return 1 }

func (e Exec) grace() time.Duration { return cmp.Or(e.Grace, killGrace) }

// Linger is the time until SIGKILL, and a little for the end that it brings.
func (e Exec) Linger() time.Duration { return e.grace() + 2*time.Second }

// Slot takes a lock that the command inherits, one of limit many for the recipient; see program.Slot.
func (Exec) Slot(database, recipient string, limit int) (orchestrator.Slot, error) {
	for i := range max(limit, 1) {
		slot, err := program.TakeSlot(program.SlotFolder(database), recipient+"."+strconv.Itoa(i))
		if err == nil {
			return slot, nil
		}
		if !errors.Is(err, orchestrator.ErrNoSlot) {
			return nil, err
		}
	}
	return nil, orchestrator.ErrNoSlot
}

// Deliver runs the command once for all messages, which share its outcome. A message that cannot be written as JSON
// fails alone and is not handed over.
func (e Exec) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages))
	var input bytes.Buffer
	var handed []*orchestrator.Message
	for i := range a.Messages {
		if errs[i] = writeLine(&input, &a.Messages[i]); errs[i] == nil {
			handed = append(handed, &a.Messages[i])
		}
	}
	if len(handed) == 0 {
		return errs
	}
	err := e.run(ctx, &a, handed, input.Bytes())
	for i := range errs {
		approved := errors.Is(err, program.ErrStopped) && a.Messages[i].Type == orchestrator.ShutdownRequest // which is why it was ended
		if errs[i] == nil && !approved {
			errs[i] = err
		}
	}
	return errs
}

// run runs the command and says what became of it.
func (e Exec) run(ctx context.Context, a *orchestrator.Attempt, ms []*orchestrator.Message, input []byte) error {
	database := a.Database
	if database != "" && !strings.Contains(database, "://") {
		absolute, err := filepath.Abs(database) // the command runs in another folder
		if err != nil {
			return err
		}
		database = absolute
	}
	slot, _ := a.Slot.(*program.Slot) // none outside of the engine
	result, err := program.Run(ctx, program.Command{
		Text: a.Address, Folder: a.Folder, Input: input, Env: variables(a, database, ms), Passes: a.PassEnv, Slot: slot,
		Grace: e.grace(), Key: program.KeyOf(a.Database, a.Recipient),
	})
	if err != nil {
		return err
	}
	if a.Report != nil && result.Output != "" {
		a.Report(result.Output)
	}
	return verdict(&result, len(ms))
}

// verdict turns the end of a command into the outcome of its messages. A run with several refuses none: nobody could
// tell which one it means.
func verdict(r *program.Result, messages int) error {
	how := "the command"
	switch {
	case r.Lost == nil && r.Ended == nil && r.Status == 0:
		return nil
	case r.Ended != nil:
		how += fmt.Sprintf(" was stopped (%v): %s", r.Ended, r.How())
	case r.Status >= 0 && r.Lost == nil:
		how += " ended with " + r.How()
	default:
		how += ": " + r.How()
	}
	if said := orchestrator.LastLines(r.Output); said != "" {
		how += "; output: " + said
	}
	if errors.Is(r.Ended, program.ErrStopped) {
		if r.Lost == nil && r.Status == 0 {
			return nil
		}
		return fmt.Errorf("%w: %w: %s", orchestrator.ErrTryLater, r.Ended, how)
	}
	if r.Ended == nil && r.Status == tryLaterStatus {
		return fmt.Errorf("%w: %s", orchestrator.ErrTryLater, how)
	}
	if r.Ended == nil && r.Lost == nil && messages == 1 && r.Status >= firstRefusal && r.Status <= lastRefusal {
		return fmt.Errorf("%w: %s", orchestrator.ErrRefused, how)
	}
	return errors.New(how)
}

// variables returns what the environment of the command tells of its messages.
func variables(a *orchestrator.Attempt, database string, ms []*orchestrator.Message) []string {
	ids := make([]string, len(ms))
	for i, m := range ms {
		ids[i] = strings.ReplaceAll(m.ID, "\n", "\uFFFD") // a foreign writer's id must not look like two
	}
	m := ms[0]
	env := []string{
		"MAILROOM_MESSAGE_ID=" + m.ID,
		"MAILROOM_MESSAGE_IDS=" + strings.Join(ids, "\n"),
		"MAILROOM_BATCH=" + strconv.Itoa(len(ms)),
		"MAILROOM_SENDER=" + m.Sender,
		"MAILROOM_RECIPIENT=" + a.Recipient,
		"MAILROOM_AGENT=" + a.Recipient,
		"MAILROOM_MESSAGE_TYPE=" + m.Type,
		"MAILROOM_THREAD_ID=" + m.ThreadID,
		"MAILROOM_REPLY_TO=" + m.ReplyTo,
		"MAILROOM_PRIORITY=" + strconv.Itoa(m.Priority),
		"MAILROOM_ATTEMPT=" + strconv.Itoa(m.Attempt()),
	}
	if a.Since != "" {
		env = append(env, "MAILROOM_AGENT_SINCE="+a.Since)
	}
	if database != "" {
		env = append(env, "MAILROOM_DB="+database)
	}
	if parent := m.Traceparent(); parent != "" {
		env = append(env, "TRACEPARENT="+parent)
	}
	return env
}
