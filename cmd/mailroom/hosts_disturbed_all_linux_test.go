//go:build hosts

package main

import (
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestHostsAreNotDisturbed checks that whatever is wrong with the database, each host works and ends as without
// Mailroom, and no message counts as shown. After the repair, the message is shown once.
func TestHostsAreNotDisturbed(t *testing.T) {
	t.Parallel()
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inEachHost(t, func(t *testing.T, k *desk, of seat) {
				id := k.send("Look at the build.")
				repair := harm(k)
				s := k.sits()
				r := s.asks()
				r.shows()
				s.works(r, "echo It works.")
				r = s.asks()
				r.shows()
				if text := r.text(); !strings.Contains(text, "It works.") || strings.Contains(text, "mailroom: ") ||
					strings.Contains(text, "hook error") {
					t.Errorf("the model is told:\n%s", text)
				}
				r.says("Done.")
				s.turnEnds()
				repair()
				k.stand("unread")

				s.goesOn("Go on.")
				r = s.isShown(s.asks(), id)
				s.rests(r)
				want.Rows(t, k.rows(`SELECT count(*) FROM message_trace WHERE event = 'shown'`), "1")
			})
		})
	}
}
