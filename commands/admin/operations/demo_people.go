package operations

import (
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/person"
)

// thinking is how long the demo's person waits before answering.
const thinking = 400 * time.Millisecond

// question makes an agent ask its user, who answers on a phone.
func (d *demonstration) question() error {
	d.step("6. An agent asks a person, who answers on a phone")
	phone, err := d.phone()
	if err != nil {
		return err
	}
	ask := message("code_developer", orchestrator.User, "question",
		`{"question":"TASK-31-1 changes how tokens are signed, so old tokens stop working. Continue?","options":["Yes, continue","No, keep them"]}`)
	if err := d.run("send", ask, nil); err != nil {
		return err
	}
	if err := d.run("deliver_all", map[string]any{}, nil); err != nil {
		return err
	}
	var open struct {
		Questions []struct {
			ID string `json:"questionId"`
		} `json:"questions"`
	}
	if err := d.run("signal_list", map[string]any{"status": "pending"}, &open); err != nil {
		return err
	}
	if len(open.Questions) != 1 {
		return orchestrator.Errorf(orchestrator.Internal, "%d questions are open, but the demo asked only one",
			len(open.Questions))
	}
	d.say("code_developer asks the user; Mailroom encrypts the question for the phone")
	if err := d.pause(thinking); err != nil {
		return err
	}
	if err := phone.Answer(d.quiet, d.env.Ledger, open.Questions[0].ID, 0); err != nil {
		return err
	}
	d.say("%.1f s later the person answers on the phone", thinking.Seconds())
	if err := d.run("deliver_all", map[string]any{}, nil); err != nil {
		return err
	}
	return d.reads("code_developer")
}

// phone pairs a phone with the database, and approves it. The demo acts as that phone, with a key that the database
// does not have.
func (d *demonstration) phone() (person.Phone, error) {
	if err := d.run("setting_set", map[string]any{"key": "signal.url", "value": "http://localhost:8420"},
		nil); err != nil {
		return person.Phone{}, err
	}
	var pair struct {
		Code string `json:"code"`
	}
	if err := d.run("signal_pair", map[string]any{}, &pair); err != nil {
		return person.Phone{}, err
	}
	phone, fingerprint, err := person.PairPhone(d.quiet, d.env.Ledger, pair.Code, "the demo's phone")
	if err != nil {
		return phone, err
	}
	d.say("paired and approved a phone with the fingerprint %s", fingerprint)
	return phone, d.run("signal_device_approve", map[string]any{"fingerprint": fingerprint}, nil)
}

// thread makes three agents talk in a thread, until one of them closes it.
func (d *demonstration) thread() error {
	d.step("7. Three agents talk in a thread and close it")
	var made struct {
		ID string `json:"threadId"`
	}
	if err := d.run("coral_create_thread", map[string]any{
		"threadName": "Release 2.4", "creatorId": "architect",
		"participantIds": []string{"code_developer", "orchestrator"},
	}, &made); err != nil {
		return err
	}
	for _, post := range []struct{ sender, mentions, content string }{
		{"architect", "code_developer", "Is TASK-31-1 in the release?"},
		{"code_developer", "architect", "It is merged, and all 412 tests are green."},
		{"architect", "orchestrator", "Then 2.4 can go out. Please tag it."},
	} {
		if err := d.run("coral_send_message", map[string]any{
			"threadId": made.ID, "senderId": post.sender, "content": post.content, "mentions": []string{post.mentions},
		}, nil); err != nil {
			return err
		}
		if err := d.run("coral_wait_for_mentions", map[string]any{"agentId": post.mentions, "timeoutMs": 0},
			nil); err != nil {
			return err
		}
		d.say("%s to %s: %s", post.sender, post.mentions, post.content)
	}
	if err := d.as("orchestrator").run("coral_close_thread",
		map[string]any{"threadId": made.ID, "summary": "2.4 is tagged."}, nil); err != nil {
		return err
	}
	d.say("orchestrator closes the thread; its messages stay in the database")
	for _, told := range []string{"architect", "code_developer"} {
		if err := d.run("coral_wait_for_mentions", map[string]any{"agentId": told, "timeoutMs": 0}, nil); err != nil {
			return err
		}
	}
	return nil
}

// as returns a demo that runs commands for an agent whose name is not a parameter of the command.
func (d *demonstration) as(agent string) *demonstration {
	other := *d
	other.env.Caller.Name = agent
	return &other
}

// reads makes an agent read its messages, and describes each message.
func (d *demonstration) reads(agent string) error {
	var got mail
	if err := d.run("wait", map[string]any{"recipient": agent, "timeout": 0}, &got); err != nil {
		return err
	}
	for _, m := range got.Messages {
		d.say("%s read %s from %s: %s", agent, m.Type, m.Sender, m.Payload)
	}
	return nil
}
