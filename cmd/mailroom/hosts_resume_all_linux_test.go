//go:build hosts

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestHostsResume checks that a session that ended normally and is resumed shows the messages sent meanwhile, and
// shows no earlier message again.
func TestHostsResume(t *testing.T) {
	t.Parallel()
	inEachHost(t, func(t *testing.T, k *desk, of seat) {
		early := k.send("Before you came.")
		g := k.newGate()
		s := k.sits()
		r := s.nextHas(early) // OpenCode confirms it with this step, and accepts no other message before
		s.worksAt(r, g)
		busy := k.send("While you work.")
		g.open()
		r = s.nextHas(busy)
		r.shows(early, busy)
		s.rests(r)
		s.leaves()

		late := k.send("While you were away.")
		s = k.resumes()
		r = s.nextHas(late)
		r.shows(early, busy, late)
		s.rests(r)
		k.onceShown(early, busy, late)
	})
}

// TestHostsResumeAfterAKill checks a resumed session whose host was killed after its model was asked about a message.
// The message is in the session once, and is read after the model has answered.
func TestHostsResumeAfterAKill(t *testing.T) {
	t.Parallel()
	for _, answered := range []bool{false, true} {
		t.Run(fmt.Sprint("answered=", answered), func(t *testing.T) {
			t.Parallel()
			inEachHost(t, func(t *testing.T, k *desk, of seat) {
				s := k.sits()
				id, r := s.hearsAtWork(k.mail)
				if answered {
					s.worksAt(r, k.newGate())
				}
				s.hasWritten(id, answered)
				s.kill()

				s = k.resumes()
				r = s.asks()
				r.shows(id)
				s.rests(r)
				k.onceShown(id)
			})
		})
	}
}

// TestHostsKilledBeforeTheirModelIsAsked checks a host that is killed when it has a message that its model was not
// asked about. The message is in the next request once, in the same session or in another. The end of Codex's process
// cannot be detected, so another session gets the message only after ten minutes.
func TestHostsKilledBeforeTheirModelIsAsked(t *testing.T) {
	t.Parallel()
	for _, resumed := range []bool{false, true} {
		t.Run(fmt.Sprint("resumed=", resumed), func(t *testing.T) {
			t.Parallel()
			inEachHost(t, func(t *testing.T, k *desk, of seat) {
				work, answered := k.newGate(), k.newGate()
				if of.end != "" {
					k.hooked = fmt.Sprintf("hook; if [ $EVENT = %s ]; then %s; fi", of.end, answered.pass())
				}
				s := k.sits()
				s.worksAt(s.asks(), work)
				id := k.send("Look at the build.")
				s.has(id)
				if of.end != "" {
					work.open()
					answered.reached()
				}
				k.stand("shown")
				s.kill()

				k.hooked = ""
				if resumed {
					s = k.resumes()
				} else {
					s = k.sits()
				}
				r := s.nextHas(id)
				if k.host == "codex" && !resumed {
					r.shows()
					k.stand("shown")
					return
				}
				r.shows(id)
				s.rests(r)
			})
		})
	}
}

// nextHas returns the next request, or the one after it, because a message that comes by itself may come a step
// later.
func (s *sitting) nextHas(id string) *request {
	s.t.Helper()
	r := s.asks()
	s.has(id)
	if s.live != nil && !strings.Contains(r.text(), id) {
		s.works(r, "echo One step.")
		r = s.asks()
	}
	return r
}

// hasWritten waits until the host has saved that its model was shown a message or, if the model has answered, the
// answer. Hosts without a file have done so by then.
func (s *sitting) hasWritten(id string, answered bool) {
	s.t.Helper()
	folders := map[string]string{"claude": ".claude/projects", "codex": ".codex/sessions", "copilot": ".copilot/session-state"}
	calls := map[string]string{"claude": "toolu_2", "codex": "call_2", "copilot": "call_2"}
	if folder := folders[s.host]; folder != "" {
		s.until("the host has written it down", func() bool {
			text := s.transcript(folder, id)
			return bytes.Contains(text, []byte(`<mailroom-message id=\"`+id)) &&
				(!answered || bytes.Contains(text, []byte(calls[s.host])))
		})
	}
}

// onceShown checks that messages were shown to a session once.
func (k *desk) onceShown(ids ...string) {
	k.t.Helper()
	want.Rows(k.t, k.rows(`SELECT message_id FROM message_trace WHERE event = 'shown' AND error LIKE 'to session %'
		ORDER BY message_id`), ids...)
}
