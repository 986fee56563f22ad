package agents_test

import (
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/threads"
)

// A display name that could be mistaken for another is refused with a reason.
func TestDisplayNames(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "builder", "code_developer", "pm1", "eve")
	join := func(agent, session, name string) error {
		_, err := agents.Join(t.Context(), f.Ledger, agents.Joining{Session: session, Agent: agent, DisplayName: &name})
		return err
	}
	for _, taken := range [][2]string{{"builder", "The Builder"}, {"pm1", "Straße Сергей"}} {
		if err := join(taken[0], "s", taken[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct{ name, why string }{
		// invisible characters
		{"bell\x07", "U+0007"}, {"two\nlines", "U+000A"}, {"tab\there", "U+0009"}, {"nel\u0085", "U+0085"},
		{"csi\u009b2J", "U+009B"}, {"\u202eevil", "U+202E"},
		{"iso\u2066late", "U+2066"}, {"zero\u200bwidth", "U+200B"}, {"bom\ufeff", "U+FEFF"}, {"line\u2028", "U+2028"},
		{"par\u2029", "U+2029"},
		{"tag\U000e0041", "U+E0041"}, {"soft\u00adhyphen", "U+00AD"}, {"filler\u3164", "U+3164"},
		{"joined 👩\u200d💻", "U+200D"}, {"bad \xff", "UTF-8"}, {"   ", "visible"},
		// reserved names
		{"user", "reserved"}, {"User", "reserved"}, {" SYSTEM ", "reserved"}, {"ａｌｌ", "reserved"},
		{"agent", "reserved"}, {"Operator", "reserved"}, {"uѕеr", "scripts"},
		// names of other agents
		{"builder", "builder"}, {"BUILDER", "builder"}, {"Ｂuilder", "builder"}, {"𝐛𝐮𝐢𝐥𝐝𝐞𝐫", "builder"},
		{"builder\ufe0f", "builder"}, {"\u2800builder", "builder"}, {"Code_Developer", "code_developer"},
		{"pml", "pm1"}, {"PMI", "pm1"},
		{"the builder", "builder"}, {"THE  BUILDER", "builder"}, {"ｔｈｅ\u00a0builder", "builder"},
		{"STRASSE Сергей", "pm1"}, {"Straße СЕРГЕЙ", "pm1"}, {"Straße Cepгeй", "scripts"},
		// several scripts in a word
		{"buildеr", "Latin and Cyrillic"}, {"Αlice", "Greek and Latin"}, {"раypal", "Cyrillic and Latin"},
		{"x日本", "Latin and Han"}, {"한ひ", "Hangul and Hiragana"},
	} {
		err := join("eve", "s", row.name)
		if orchestrator.CodeOf(err) != orchestrator.InvalidParams || !strings.Contains(err.Error(), row.why) {
			t.Errorf("%+q: %v; want invalid_params with %q", row.name, err, row.why)
		}
	}
	for _, name := range []string{
		"", "Eve", "eve", "ＥＶＥ", "Ева", "Eve Ева", "Eve-Ева 2", "東京タワー", "日本のひと", "한국 韓國", "한漢", "ㄅ注音漢", "Ζωή", "عامل",
		"निर्माता", "O'Brien", "Zoë (tests) 😀", "❤️ 2️⃣", "The Builders", "builder 2",
	} {
		if err := join("eve", "s", name); err != nil {
			t.Errorf("%+q: %v", name, err)
		}
	}
	if err := join("eve", "elsewhere", "The Builder"); err != nil {
		t.Errorf("the display name of another in another session: %v", err)
	}
	if err := join("builder", "s", "The Builder"); err != nil {
		t.Errorf("one's own display name again: %v", err)
	}
}

// Texts that are shown within a line must be one line of visible characters: message types and thread names.
func TestUnseenCharactersAreRefused(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	for _, bad := range []string{"x\ny", "x\u0085", "\u202ex", "x\u200b", "x\u2028", "x\U000e0041", "\x1b[2J"} {
		_, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "b", Type: bad})
		want.Code(t, err, orchestrator.InvalidParams)
		if !strings.Contains(err.Error(), "message_type contains U+") {
			t.Errorf("a type %+q: %v", bad, err)
		}
		_, err = threads.Create(t.Context(), f.Ledger, threads.Draft{Session: "s", Name: bad, Creator: "a"})
		want.Code(t, err, orchestrator.InvalidParams)
		if !strings.Contains(err.Error(), "thread contains U+") {
			t.Errorf("a thread %+q: %v", bad, err)
		}
	}
	if _, err := messages.Send(t.Context(), f.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "b", Type: "größe ✅ done/ok"}); err != nil {
		t.Error(err)
	}
	if _, err := threads.Create(t.Context(), f.Ledger,
		threads.Draft{Session: "s", Name: "Pläne 2026 – テスト 😀", Creator: "a"}); err != nil {
		t.Error(err)
	}
}
