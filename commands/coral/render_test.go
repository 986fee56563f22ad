package coral

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/transport"
)

// office is a database in a real file. Tests use it through the commands of the vocabulary.
type office struct {
	catalogue *commands.Catalogue
	router    *delivery.Engine
}

func newOffice(t *testing.T, names ...string) *office {
	t.Helper()
	r, err := router.Open(t.Context(), enginetest.Placed(ledger.Options{
		Path: enginetest.Place(t), Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}},
		Log: slog.New(slog.DiscardHandler), Bell: store.NewLocalBell(),
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for _, name := range names {
		if _, _, err := agents.Add(t.Context(), r.Ledger, agents.Update{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	return &office{commands.NewCatalogue(Definitions()), r}
}

// failer is a test, or one run of a property.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// try runs a command as an agent.
func (o *office) try(t *testing.T, as, command string, params any) (commands.Answer, error) {
	d, err := o.catalogue.Lookup("coral_" + command)
	if err != nil {
		return commands.Answer{}, err
	}
	body, err := orchestrator.JSON(params)
	if err != nil {
		return commands.Answer{}, err
	}
	env := commands.Env{Engine: o.router, Caller: commands.Caller{Name: as, Session: "default"},
		Log: slog.New(slog.DiscardHandler)}
	answer, err := d.Run(t.Context(), env, body)
	if err == nil {
		err = answer.Settle(t.Context(), env, true)
	}
	return answer, err
}

// ask runs a command that must succeed, as an agent.
func ask[R any](t *testing.T, f failer, o *office, as, command string, params any) R {
	f.Helper()
	answer, err := o.try(t, as, command, params)
	if err != nil {
		f.Fatalf("%s %v: %v", command, params, err)
	}
	return answer.Result.(R)
}

// hostile generates texts that try to break out of XML, and characters that XML cannot contain.
func hostile(t *rapid.T, what string) string {
	pieces := []string{"<", ">", "&", `"`, "'", "]]>", "<![CDATA[", "</content>", "</message></messages>", "<!--",
		"-->", "<?x?>", "&amp;", "&#0;",
		"\r\n", "\n", "\t", " ", "\x01", "\x1f", "\x7f", "\ufffe", "\u2028", "é", "😀", "text", "{", "}"}
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 8).Draw(t, what), "")
}

// hostileLine generates hostile texts for parameters that must be one line of visible characters.
func hostileLine(t *rapid.T, what string) string {
	line := strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return -1
	}, hostile(t, what))
	return "n" + strings.TrimSpace(line)
}

// inXML returns a text as an XML reader returns it: characters that XML does not allow are replaced.
func inXML(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return 0xfffd
		}
		return r
	}, s)
}

// Whatever agents write, the XML for models has the document's shape and contains each text in its place. The JSON
// beside it has every character.
func TestContentDoesNotBreakOut(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	rapid.Check(t, func(rt *rapid.T) {
		name, content, title := hostileLine(rt, "name"), hostile(rt, "content"), hostileLine(rt, "title")
		ask[RegisterAgentResult](t, rt, o, "a", "register_agent", map[string]any{"agentName": name})
		th := ask[ThreadResult](t, rt, o, "a", "create_thread",
			map[string]any{"threadName": title, "participantIds": []string{"b"}})
		post := ask[SendMessageResult](t, rt, o, "a", "send_message",
			map[string]any{"threadId": th.ThreadID, "content": content, "mentions": []string{"b"}})
		d := orchestrator.Draft{Sender: "a", Recipient: "b", Type: "x", Summary: content, Context: title}
		d.Payload, _ = json.Marshal(map[string]string{content: title})
		if _, err := messages.Send(t.Context(), o.router.Ledger, d); err != nil {
			rt.Fatalf("%v", err)
		}
		r := ask[WaitForMentionsResult](t, rt, o, "b", "wait_for_mentions", map[string]any{"timeoutMs": 0})
		if len(r.Threads) != 2 || len(r.Threads[0].Messages) != 1 || len(r.Threads[1].Messages) != 1 {
			rt.Fatalf("got %+v", r.Threads)
		}
		m := r.Threads[0].Messages[0]
		if string(m.Content) != content || m.ID != post.ID || m.Sender.Name != name || r.Threads[0].Name != title {
			rt.Fatalf("the JSON says %+v", r.Threads[0])
		}
		checkXML(rt, r.ToolText(), name, content, title)
	})
}

// checkXML reads the XML as its readers do.
func checkXML(t failer, text, name, content, title string) {
	t.Helper()
	type message struct {
		Sender  Party    `xml:"sender"`
		Content []string `xml:"content"`
		Summary string   `xml:"summary"`
		Context string   `xml:"context"`
		Others  []Party  `xml:"mentions>mention"`
	}
	var read struct {
		XMLName xml.Name `xml:"messages"`
		Threads []struct {
			Name     string    `xml:"name,attr"`
			Messages []message `xml:"messages>message"`
		} `xml:"thread"`
	}
	d := xml.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&read); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if _, err := d.Token(); err == nil {
		t.Fatalf("something follows the XML:\n%s", text)
	}
	if len(read.Threads) != 2 || len(read.Threads[0].Messages) != 1 || len(read.Threads[1].Messages) != 1 {
		t.Fatalf("it has %d threads:\n%s", len(read.Threads), text)
	}
	m, direct := read.Threads[0].Messages[0], read.Threads[1].Messages[0]
	for what, pair := range map[string][2]string{
		"the content":  {fmt.Sprint(m.Content), "[" + inXML(content) + "]"},
		"the sender":   {m.Sender.Name, inXML(name)},
		"the thread":   {read.Threads[0].Name, inXML(title)},
		"the mentions": {fmt.Sprint(m.Others), "[{b b}]"},
		"the summary":  {direct.Summary, inXML(content)},
		"the context":  {direct.Context, inXML(title)},
	} {
		if pair[0] != pair[1] {
			t.Fatalf("%s is %q; want %q, in\n%s", what, pair[0], pair[1], text)
		}
	}
}

// The XML also informs a waiting agent that a thread was closed, by whom and why, with the thread in its present
// state.
func TestClosingIsToldInXML(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "a", "b")
	th := ask[ThreadResult](t, t, o, "a", "create_thread",
		map[string]any{"threadName": "talk", "participantIds": []string{"b"}})
	ask[ThreadResult](t, t, o, "a", "close_thread", map[string]any{"threadId": th.ThreadID, "summary": "5 < 6"})
	r := ask[WaitForMentionsResult](t, t, o, "b", "wait_for_mentions", map[string]any{"timeoutMs": 0})
	var read struct {
		Threads []struct {
			ID       string `xml:"id,attr"`
			Status   string `xml:"status"`
			Summary  string `xml:"summary"`
			Messages []struct {
				Sender  Party  `xml:"sender"`
				Content string `xml:"content"`
				Type    string `xml:"message_type"`
			} `xml:"messages>message"`
		} `xml:"thread"`
	}
	if err := xml.Unmarshal([]byte(r.ToolText()), &read); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%+v", read.Threads)
	if want := "[{ID:" + th.ThreadID +
		" Status:closed Summary:5 < 6 Messages:[{Sender:{ID:system Name:system} Content:a closed this thread. Summary: 5 < 6 Type:thread_closed}]}]"; got != want {
		t.Errorf("b reads %s, want %s", got, want)
	}
}
