package overview_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
)

// needed returns a line for each finding, without its IDs and times.
func needed(t *testing.T, f *enginetest.Fixture) (lines []string) {
	t.Helper()
	r, err := overview.Now(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range r.Findings {
		since := ""
		if n.Since != "" {
			since = f.Clock.Now().Sub(orchestrator.ParseStamp(n.Since)).String()
		}
		lines = append(lines, fmt.Sprintf("%s %d %s | %s | %s", n.Code, n.Count, n.Says, strings.Join(n.From, ", "),
			since))
	}
	return lines
}

// roomLines returns a line for each agent and each pair in the room.
func roomLines(t *testing.T, f *enginetest.Fixture) (lines []string) {
	t.Helper()
	r, err := overview.LookAround(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range r.Agents {
		if a.State != "" || a.Pending+a.Unread+a.Failed > 0 {
			lines = append(lines, fmt.Sprintf("%s %s %d %d %d", a.Name, a.State, a.Pending, a.Unread, a.Failed))
		}
	}
	for _, p := range r.Pairs {
		lines = append(lines,
			fmt.Sprintf("%s to %s: %d, %d failed, %d retry, %d pending, %d unread", p.Sender, p.Recipient, p.Messages,
				p.Failed, p.Retry, p.Pending, p.Unread))
	}
	return lines
}

// TestNeeds checks that a problem that needs a person is found, is reported once, and disappears when it is solved.
func TestNeeds(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.AddWired("w")
	want.Rows(t, needed(t, f)) // nothing waits for a daemon
	f.Wire.Set(enginetest.Failing("cannot lock, held by process 11"))
	f.Send("a", "w")
	f.Send("b", "w")
	f.Send("a", "w", func(d *orchestrator.Draft) { d.HoldUnknown = true })
	f.Send("a", "ghost", func(d *orchestrator.Draft) { d.HoldUnknown = true })
	f.Send("a", "b")
	for range 4 {
		f.Deliver()
		f.Clock.Advance(20 * time.Minute)
	}
	f.Send("b", "w")
	f.Deliver()
	want.Rows(t, needed(t, f),
		"daemon 1 No daemon runs, and 1 message waits for one |  | 0s",
		"failed 3 Messages to w failed, and 1 more message is waiting | a, b | 20m0s",
		"overdue 1 No agent has the name \"ghost\" | a | 1h20m0s",
		"unread 2 a does not read its messages | system | 20m0s",
		"unread 2 b does not read its messages | a, system | 1h20m0s",
	)
	r, err := overview.Now(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range r.Findings {
		want.Equal(t, "nobody has the name of "+n.About, n.Unknown, n.About == "ghost")
	}
	want.Rows(t, roomLines(t, f),
		"a unread 0 2 0", "b unread 0 2 0", "ghost  1 0 0", "w fails 1 0 3",
		"b to w: 1, 1 failed, 1 retry, 0 pending, 0 unread", "a to w: 0, 2 failed, 0 retry, 0 pending, 0 unread",
	)
	f.Wire.Set(nil)
	f.Clock.Advance(10 * time.Minute)
	f.Deliver()
	f.TakeFor("a", 0)
	f.TakeFor("b", 0)
	f.AddAll("ghost")
	f.Deliver()
	f.TakeFor("ghost", 0)
	want.Rows(t, needed(t, f), "failed 3 Messages to w failed | a, b | 30m0s")
}

// TestRefusedSenders checks that a message rejected because of its sender says nothing about its recipient, and that
// no advice is given that cannot be followed. An agent that has read something counts as heard from immediately.
func TestRefusedSenders(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	for _, sender := range []string{"aa", orchestrator.SystemSender} {
		_, err := messages.Send(t.Context(), f.Ledger,
			orchestrator.Draft{Sender: sender, Recipient: "b", Type: "note", Payload: []byte("1")})
		want.Code(t, err, orchestrator.UnknownSender)
	}
	r, err := overview.Now(t.Context(), f.Ledger)
	if err != nil || len(r.Findings) != 2 || strings.Contains(r.Findings[1].Do, "replay") ==
		strings.Contains(r.Findings[0].Do, "replay") {
		t.Errorf("%+v, %v", r.Findings, err)
	}
	want.Equal(t, "how b stands", f.Standing("b").State, "")
	f.Send("a", "b")
	f.Deliver()
	f.Clock.Advance(time.Hour)
	f.Take("b")
	want.Equal(t, "how b stands, who has just read", f.Standing("b").State, "active")
}

// TestNothingIsWantedYet checks that a message for later delivery does not wait for a daemon.
func TestNothingIsWantedYet(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("w")
	f.Send("a", "w", func(d *orchestrator.Draft) { d.Delay = time.Hour })
	want.Rows(t, needed(t, f))
	f.Clock.Advance(time.Hour)
	want.Rows(t, needed(t, f), "daemon 1 No daemon runs, and 1 message waits for one |  | 0s")
}

// TestNeedsAreGroups checks that each kind of failure is a separate finding, whose error selects exactly its dead
// letters.
func TestNeedsAreGroups(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("w")
	for _, says := range []string{"exit status 1: locked by process 4411", "exit status 2",
		"exit status 1: locked by process 90210"} {
		f.Wire.Set(enginetest.Failing(says))
		f.Send("a", "w")
		for range 4 {
			f.Deliver()
			f.Clock.Advance(20 * time.Minute)
		}
	}
	r, err := overview.Now(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range r.Findings {
		if n.Code != "failed" {
			continue
		}
		g, err := messages.GroupDeadLetters(t.Context(), f.Ledger, messages.DeadLetterFilter{Recipient: n.About,
			Error: n.Error, Limit: 9})
		if err != nil || len(g.Groups) != 1 || g.Total != n.Count {
			t.Errorf("%+v leads to %+v, %v", n, g, err)
		}
		got = append(got, fmt.Sprintf("%d %s", n.Count, n.Error))
	}
	want.Rows(t, got, "2 exit status 1: locked by process 90210", "1 exit status 2")

	// If there are more than twelve kinds, the others form one finding.
	for _, letter := range "abcdefghijkl" {
		f.Wire.Set(enginetest.Failing("no " + string(letter)))
		f.Send("a", "w", func(d *orchestrator.Draft) { d.MaxRetries = new(0) })
		f.Deliver()
	}
	if r, err = overview.Now(t.Context(), f.Ledger); err != nil {
		t.Fatal(err)
	}
	failed := slices.DeleteFunc(r.Findings, func(n overview.Finding) bool { return n.Code != "failed" })
	last := failed[len(failed)-1]
	if len(failed) != 13 || last.Count != 2 || last.Error != "" ||
		last.Text() != "More dead letters are addressed to 1 recipient" {
		t.Errorf("%d needs, the last %+v", len(failed), last)
	}
}

// TestSilenceIsSeenAtOnce checks that an agent is silent as soon as its limit is over, before a delivery run has
// reported it, and that the doctor counts such agents.
func TestSilenceIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Add(agents.Update{Name: "a", SilentAfter: new(time.Hour)})
	f.Send("a", "b")
	f.Clock.Advance(2 * time.Hour)
	standing, err := overview.StandingOf(t.Context(), f.Ledger, "A")
	if err != nil || standing.Status != overview.Silent {
		t.Errorf("a is %s, %v", standing.Status, err)
	}
	for _, finding := range overview.Doctor(t.Context(), f.Ledger, overview.DoctorOptions{}) {
		if finding.Code == "silent agents" && finding.Says != "Mailroom has not heard from 1 agent for longer than the time in `--silent-after`" {
			t.Errorf("the doctor finds: %s", finding.Says)
		}
	}
}

// TestNeedsOfPeople covers a question, mail for the operator, and a disabled address.
func TestNeedsOfPeople(t *testing.T) {
	t.Parallel()
	f, devices := enginetest.NewPhones(t, 1)
	f.AddWired("w")
	f.Question(devices)
	f.Question(devices, func(d *questions.Draft) {
		d.Asker, d.Encrypted, d.Body = "reviewer", false, `{"question":"Which name?"}`
	})
	f.Send("builder", orchestrator.Operator)
	f.Deliver()
	f.Wire.Set(enginetest.Refusing(enginetest.ErrGone))
	f.Send("builder", "w")
	f.Deliver()
	r, err := overview.Now(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range r.Findings {
		got = append(got, n.Code+" "+n.About+": "+n.Says+"; "+n.Because)
	}
	want.Rows(t, got,
		"disabled w: The transport of w is disabled, and 1 message waits for another address; 410 Gone: the address no longer exists",
		"unread operator: Messages to you are unread; agents address the person who runs Mailroom as `operator`",
		"question builder: builder asks a question that only a paired device can read; the question is open until 2026-01-02T04:04:05.000Z")
	f.Clock.Advance(30 * orchestrator.Day)
	for _, line := range needed(t, f) {
		if strings.HasPrefix(line, "question") {
			t.Error("a question that is over waits for nobody:", line)
		}
	}
}

// TestNeedsOfPhones checks that a phone is not in the room, and that a failed push need not be sent again. A phone
// whose pushes fail is named until one arrives.
func TestNeedsOfPhones(t *testing.T) {
	t.Parallel()
	f, devices := enginetest.NewPhones(t, 2)
	f.Wire.Set(enginetest.Failing("no route to host"))
	long := func(d *questions.Draft) { d.TTL = 24 * time.Hour }
	f.Question(devices[:1], long)
	for range 4 {
		f.Deliver()
		f.Clock.Advance(20 * time.Minute)
	}
	f.Wire.Set(enginetest.Refusing(enginetest.ErrGone))
	f.Question(devices[1:], long)
	f.Deliver()
	r, err := overview.LookAround(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.Agents {
		if strings.HasPrefix(m.Name, push.DevicePrefix) {
			t.Errorf("%s is in the room", m.Name)
		}
	}
	phones := func() (lines []string) {
		for _, line := range needed(t, f) {
			if !strings.HasPrefix(line, "daemon") && !strings.HasPrefix(line, "question") {
				lines = append(lines, line)
			}
		}
		slices.Sort(lines)
		return lines
	}
	want.Rows(t, phones(), "phone 1 phone 0 does not get notifications of questions and alerts |  | 20m0s",
		"phone 1 phone 1 does not get notifications of questions and alerts |  | 0s")
	f.Wire.Set(nil)
	f.Question(devices[:1], long)
	f.Deliver()
	want.Rows(t, phones(), "phone 1 phone 1 does not get notifications of questions and alerts |  | 0s")
	for _, found := range overview.Doctor(t.Context(), f.Ledger, overview.DoctorOptions{}) {
		if found.Code == "failed" && found.Level != "ok" {
			t.Errorf("doctor finds dead letters: %s", found.Says)
		}
	}
}

// TestNeedsOfTheUser checks that messages to a person without a phone are named.
func TestNeedsOfTheUser(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.User.Set(enginetest.Refusing(orchestrator.ErrNoDevice))
	f.Send("a", orchestrator.User)
	f.Clock.Advance(time.Minute)
	f.Send("b", orchestrator.User)
	f.Send("b", orchestrator.User)
	f.Deliver()
	want.Rows(t, needed(t, f), "user 3 Messages to you wait for a phone | b, a | 1m0s")
	f.Clock.Advance(5 * time.Minute)
	want.Rows(t, needed(t, f), "overdue 1 Messages to user are not delivered, and 2 more messages wait | b, a | 6m0s")
	f.User.Set(nil)
	d, _ := f.Pair("phone")
	if _, err := questions.ActivateDevice(t.Context(), f.Ledger, d.ID, d.Recipient); err != nil {
		t.Fatal(err)
	}
	f.Deliver()
	want.Rows(t, needed(t, f))
}

// TestNeedsOfALoop checks that two agents that write to each other without a message from a person are named, with
// the numbers.
func TestNeedsOfALoop(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "ann", "bob", "cy")
	exchange := func(times int) {
		for range times {
			f.Send("ann", "bob")
			f.Send("bob", "ann")
			f.Send("ann", "cy") // who never answers
			f.TakeFor("ann", 0)
			f.TakeFor("bob", 0)
			f.TakeFor("cy", 0)
		}
	}
	exchange(15)
	want.Rows(t, needed(t, f))
	exchange(1)
	want.Rows(t, needed(t, f), "exchange 32 ann and bob have exchanged 32 messages within ten minutes | ann, bob | ")
	found := overview.Doctor(t.Context(), f.Ledger, overview.DoctorOptions{})
	want.Equal(t, "doctor names them", slices.ContainsFunc(found, func(f overview.Finding) bool {
		return f.Code == "exchange" && f.Level == "note" &&
			f.Text() == "ann and bob have exchanged 32 messages within ten minutes: ann sent 16 and bob sent 16, and no person has written to either agent"
	}), true)
	f.SQL(`INSERT INTO host_sessions (agent, session, started_at, seen_at, prompted_at) VALUES ('bob', 's', '', '', ?)`,
		f.Stamp())
	want.Rows(t, needed(t, f))
	f.SQL(`DELETE FROM host_sessions`)
	f.Send(orchestrator.Operator, "ann")
	f.TakeFor("ann", 0)
	want.Rows(t, needed(t, f))
	f.Clock.Advance(time.Second)
	exchange(16) // after that message
	want.Rows(t, needed(t, f), "exchange 32 ann and bob have exchanged 32 messages within ten minutes | ann, bob | ")
	loops := func() [][2]string {
		pairs, err := overview.Loops(t.Context(), f.Ledger)
		want.Equal(t, "error", err, nil)
		return pairs
	}
	want.Equal(t, "loops", fmt.Sprint(loops()), "[[ann bob]]")
	if _, _, _, err := hosts.LetGo(t.Context(), f.Ledger, "bob", "ann", "a person"); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, needed(t, f))
	want.Equal(t, "loops", fmt.Sprint(loops()), "[]")
	f.Clock.Advance(time.Hour)
	want.Rows(t, needed(t, f))
	exchange(16) // when the permission has ended
	want.Rows(t, needed(t, f), "exchange 32 ann and bob have exchanged 32 messages within ten minutes | ann, bob | ")
	f.Clock.Advance(11 * time.Minute)
	want.Rows(t, needed(t, f))
	for range 40 { // work for one of them, which seldom answers
		f.Send("ann", "bob")
	}
	f.Send("bob", "ann")
	f.TakeFor("ann", 0)
	f.TakeFor("bob", 0)
	want.Rows(t, needed(t, f))
}
