package transport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"mailroom/orchestrator"
	"mailroom/orchestrator/push"
)

// Ntfy sends questions and alerts to a topic of an ntfy server; the ntfy app shows them. Its address is "ntfy", and
// Attempt.Secret is a push.NtfySecret. The payload of each message is a push.Message.
//
// For an encrypted message the notification reports only that a message is waiting. An unencrypted question with
// one to three options gets a button for each option, with a one-time token. A later notification for the same ID,
// above all that a question has ended, replaces the earlier one on servers and in apps from ntfy 2.16 on. Older
// ones show both.
//
// Responses are evaluated as for Push. push.CheckNtfyURL restricts the hosts of topics.
//
// The zero value is ready for use. An Ntfy must not be copied after the first use.
type Ntfy struct{ connections connections }

// Limits of a notification. A server accepts 4,096 bytes of text and 8,192 bytes of JSON around it. A byte of text
// can take two bytes of JSON.
const (
	maxNtfyText    = 3000
	maxNtfyName    = 100
	maxNtfyButtons = 3
)

// notification is a message to an ntfy server. Source: ntfy's documentation, "Publish as JSON".
type notification struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title,omitempty"`
	Message  string   `json:"message"`
	Priority int      `json:"priority"` // 1 to 5; 3 is the default, 1 makes no sound
	Tags     []string `json:"tags,omitempty"`
	Click    string   `json:"click,omitempty"`
	Actions  []button `json:"actions,omitempty"`
	Sequence string   `json:"sequence_id"`
}

// button is an action that makes an HTTP request.
type button struct {
	Action string `json:"action"`
	Label  string `json:"label"`
	URL    string `json:"url"`
	Method string `json:"method"`
	Clear  bool   `json:"clear"` // the notification is removed when the request succeeded
}

// Check accepts only "ntfy", the ID of the single device of this kind. Errors are invalid_params.
func (*Ntfy) Check(address string) (string, error) {
	if address != "ntfy" {
		return "", orchestrator.Errorf(orchestrator.InvalidParams,
			"ntfy is reserved for the user's topic and cannot be the transport of an agent").
			WithHint("To set the topic, run `mailroom signal ntfy URL`")
	}
	return address, nil
}

// MaxBatch returns 1: each notification is a separate request.
func (*Ntfy) MaxBatch() int { return 1 }

// Deliver sends the messages one after another.
func (n *Ntfy) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	return oneByOne(ctx, &a, n.deliver)
}

func (n *Ntfy) deliver(ctx context.Context, a *orchestrator.Attempt, m *orchestrator.Message) error {
	pushed, _, err := readPush(a, m)
	if err != nil {
		return err
	}
	var s push.NtfySecret
	if json.Unmarshal([]byte(a.Secret), &s) != nil || s.URL == "" {
		return fmt.Errorf("%s has no ntfy topic", a.Recipient)
	}
	host, err := push.CheckNtfyURL(s.URL, s.Hosts, s.AllowPrivate)
	if err != nil {
		return err
	}
	topic, err := url.Parse(s.URL)
	if err != nil {
		return err
	}
	short := waiting(pushed, &s, m.Priority)
	full := short
	if !pushed.Encrypted && (pushed.Kind == push.Question || pushed.Kind == push.Alert) {
		if full, err = inClear(pushed, &s, short); err != nil {
			return err
		}
	}
	t := pushTerms(a, topic, s.AllowPrivate && host != "ntfy.sh")
	t.secrets, t.echoes = append(t.secrets, s.Token), true
	for _, b := range full.Actions {
		t.secrets = append(t.secrets, b.URL, b.URL[strings.LastIndexByte(b.URL, '/')+1:])
	}
	status, err := n.send(ctx, full, topic, s.Token, t)
	if status == http.StatusRequestEntityTooLarge {
		_, err = n.send(ctx, short, topic, s.Token, t)
	}
	return err
}

// send makes the request.
func (n *Ntfy) send(ctx context.Context, what notification, topic *url.URL, token string, t *terms) (status int,
	err error) {
	what.Topic = strings.TrimPrefix(topic.Path, "/")
	body, err := orchestrator.JSON(what)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, topic.Scheme+"://"+topic.Host+"/", bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the address of the topic is not a URL")
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return n.connections.do(ctx, r, t)
}

// waiting returns a notification that a message is waiting, without its content.
func waiting(p *push.Message, s *push.NtfySecret, priority int) notification {
	n := notification{
		Title: "Mailroom", Priority: min(max(priority, -1), 1) + 3, Click: s.SignalURL,
		Sequence: topicOf(p.ID),
	}
	switch p.Kind {
	case push.Question:
		n.Message, n.Tags = "A question is waiting", []string{"question"}
	case push.Alert:
		n.Message = "An alert is waiting"
	case push.Test:
		n.Message = "This is a test"
	case push.Ended:
		n.Message, n.Priority, n.Click = cmp.Or(map[string]string{
			"answered": "The question was answered", "expired": "The question expired",
			"cancelled": "The question was canceled",
		}[p.Status], "The question has ended"), 1, ""
	}
	return n
}

// clearText holds the fields of an unencrypted question or alert that the ntfy app shows.
type clearText struct {
	From      string   `json:"from"`
	Question  string   `json:"question"`
	Options   []string `json:"options"`
	Context   string   `json:"context"`
	Message   string   `json:"message"`
	AlertType string   `json:"alertType"`
}

// inClear returns a notification with the content of a question or an alert.
func inClear(p *push.Message, s *push.NtfySecret, n notification) (notification, error) {
	var text clearText
	if json.Unmarshal([]byte(p.Body), &text) != nil {
		return n, errors.New("the body of the push notification is not valid")
	}
	kind, says := "Question", text.Question
	if p.Kind == push.Alert {
		kind, says = "Alert", text.Message
		switch text.AlertType {
		case "error":
			kind, n.Tags, n.Priority = "Error", []string{"rotating_light"}, max(n.Priority, 4)
		case "warning":
			kind, n.Tags = "Warning", []string{"warning"}
		case "success":
			kind, n.Tags = "Success", []string{"white_check_mark"}
		case "info":
			kind, n.Tags = "Info", []string{"information_source"}
		}
	}
	if says == "" {
		return n, errors.New("the body of the push notification has no text")
	}
	if text.Context != "" {
		says += "\n\n" + text.Context
	}
	n.Title = kind + " from " + cut(uncontrolled(text.From), maxNtfyName)
	n.Message = cut(uncontrolled(says), maxNtfyText)
	if s.SignalURL == "" || s.Key == "" || len(text.Options) > maxNtfyButtons {
		return n, nil
	}
	for i, option := range text.Options {
		n.Actions = append(n.Actions, button{
			Action: "http", Label: cut(uncontrolled(option), 4*maxNtfyName), Method: http.MethodPost, Clear: true,
			URL: s.SignalURL + "/api/once/" + url.PathEscape(p.ID) + "/" + strconv.Itoa(i) + "/" +
				push.NtfyToken(s.Key, p.ID, i),
		})
	}
	return n, nil
}

// uncontrolled removes control characters and separators, each of which would take six bytes of JSON, from a text.
// It keeps newlines.
func uncontrolled(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || r == '\u2028' || r == '\u2029') {
			return -1
		}
		return r
	}, text)
}
