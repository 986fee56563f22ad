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

// Ntfy sends questions and alerts to a topic of an ntfy server, where the ntfy app shows them. Its address is "ntfy",
// and Attempt.Secret a push.NtfySecret. The payload of each message is a push.Message.
//
// Of what is encrypted only that it waits is said. A question that is not, with one to three options, has them as
// buttons, each with a one-time token. What comes later for an id, above all that a question has ended, takes the place
// of what was there, on servers and in apps from ntfy 2.16 on; older ones show it below.
//
// Answers mean the same as for Push. Topics are at the hosts of push.CheckNtfyURL.
//
// The zero value is ready for use, and must not be copied after the first.
type Ntfy struct{ connections connections }

// Bounds of a notification. A server takes 4,096 bytes of text, and 8,192 of JSON around it, in which a byte of the
// text can take two.
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
	Priority int      `json:"priority"` // 1 to 5; 3 is usual, 1 makes no noise
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
	Clear  bool   `json:"clear"` // the notification goes when the request succeeded
}

// Check accepts "ntfy", the id of the only device of this kind. Errors are invalid_params.
func (*Ntfy) Check(address string) (string, error) {
	if address != "ntfy" {
		return "", orchestrator.Errorf(orchestrator.InvalidParams,
			"ntfy is reserved for the user's topic and cannot be the transport of an agent").
			WithHint("To set the topic, run `mailroom signal ntfy URL`")
	}
	return address, nil
}

// MaxBatch is 1: each notification is a request of its own.
func (*Ntfy) MaxBatch() int { return 1 }

// Deliver sends the messages one after the other.
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

// waiting returns the notification that a push is there, without its content.
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

// clearText is what the ntfy app shows of a question or an alert that is not encrypted.
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

// uncontrolled returns a text without control characters and separators, each of which would take six bytes of JSON;
// ends of lines stay.
func uncontrolled(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || r == '\u2028' || r == '\u2029') {
			return -1
		}
		return r
	}, text)
}
