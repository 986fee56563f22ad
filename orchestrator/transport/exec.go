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

// Exec runs a command for each message, or for each batch of messages. Its address is the command, for `sh -c`:
// `--deliver exec:COMMAND`. The command runs in the agent's folder. Its standard input receives each message as one
// line of JSON, in the format of JSONL. The trace keeps the first and the last program.TailSize bytes of its
// output.
//
// Exit status 0 means that all messages of the batch are delivered. 75 means that they are to be retried later,
// which uses up no retry. 65 to 69, from a run with one message, means that the message is refused for good. Any
// other status, or a signal, means that the attempt failed. At the delivery timeout the command and all processes
// that it started get SIGTERM, and SIGKILL after Grace. The attempt has then failed, whatever the exit status.
//
// No part of a message is ever part of the command. Environment variables describe the messages:
// MAILROOM_MESSAGE_ID, MAILROOM_SENDER, MAILROOM_MESSAGE_TYPE, MAILROOM_THREAD_ID, MAILROOM_REPLY_TO,
// MAILROOM_PRIORITY (-9 to 9), MAILROOM_ATTEMPT (from 1) and TRACEPARENT describe the first message,
// MAILROOM_MESSAGE_IDS lists the IDs, one a line, and MAILROOM_BATCH is their number. MAILROOM_AGENT and
// MAILROOM_RECIPIENT name the agent, MAILROOM_AGENT_SINCE is the time when it was added, and MAILROOM_DB names the
// database, so that `mailroom` within the command acts as the agent. The variables are cut at program.MaxValue;
// standard input is not. The command gets those variables of our own environment that Attempt.PassEnv lists.
//
// A command that is running when its agent approves a shutdown is stopped in the same way. The shutdown request
// then counts as delivered; the other messages of the run are retried later.
//
// A message may be delivered again after a crash, with the same ID. No second command starts for the agent until
// the command of a killed process has ended.
type Exec struct {
	Grace time.Duration // time from SIGTERM to SIGKILL; 0: 5 s
}

const (
	maxCommandBatch = 1000
	killGrace       = 5 * time.Second
	tryLaterStatus  = 75 // EX_TEMPFAIL of sysexits.h

	// From EX_DATAERR to EX_UNAVAILABLE of sysexits.h: another attempt with this message cannot succeed.
	firstRefusal = 65
	lastRefusal  = 69
)

// Check checks a command for the current folder; see CheckIn.
func (e Exec) Check(address string) (string, error) { return e.CheckIn("", address) }

// CheckIn checks that the shell can parse a command and finds its program from folder, as far as possible without
// running it; see program.Check.
func (Exec) CheckIn(folder, address string) (string, error) {
	command := strings.TrimSpace(address)
	if command == "" {
		return "", errors.New("no command given; write exec:COMMAND")
	}
	return command, program.Check(command, folder)
}

// IsRooted returns true: a command is on one machine.
func (Exec) IsRooted(string) bool { return true }

// MaxBatch returns the largest number of messages of one run.
func (Exec) MaxBatch() int { return maxCommandBatch }

// UsualBatch returns 1: one command for each message.
func (Exec) UsualBatch() int { return 1 }

func (e Exec) grace() time.Duration { return cmp.Or(e.Grace, killGrace) }

// Linger returns the time until SIGKILL, plus 2 s for the command to end.
func (e Exec) Linger() time.Duration { return e.grace() + 2*time.Second }

// Slot takes one of limit locks for the recipient. The command inherits the lock; see program.Slot.
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

// Deliver runs the command once for all messages, which share its result. A message that cannot be encoded as JSON
// fails alone and is not passed to the command.
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
		// The shutdown request was delivered: its approval stopped the command.
		approved := errors.Is(err, program.ErrStopped) && a.Messages[i].Type == orchestrator.ShutdownRequest
		if errs[i] == nil && !approved {
			errs[i] = err
		}
	}
	return errs
}

// run runs the command and returns its result as an error.
func (e Exec) run(ctx context.Context, a *orchestrator.Attempt, ms []*orchestrator.Message, input []byte) error {
	database := a.Database
	if database != "" && !strings.Contains(database, "://") {
		absolute, err := filepath.Abs(database) // the command runs in another folder
		if err != nil {
			return err
		}
		database = absolute
	}
	slot, _ := a.Slot.(*program.Slot) // nil outside the engine
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

// verdict turns the end of a command into the result of its messages. A run with several messages refuses none,
// because the exit status does not show which message it means.
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

// variables returns the environment variables that describe the messages of a command.
func variables(a *orchestrator.Attempt, database string, ms []*orchestrator.Message) []string {
	ids := make([]string, len(ms))
	for i, m := range ms {
		ids[i] = strings.ReplaceAll(m.ID, "\n", "\uFFFD") // an ID from another program must not look like two
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
