package agents_test

import (
	"database/sql"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/corpus"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/transport"
)

// nameSeeds lists valid and invalid names.
var nameSeeds = []string{
	"architect", "Code_Developer", "a-1", "a", strings.Repeat("n", 57), strings.Repeat("n", 58), "agent", "user",
	"sqlite_x", "all", "",
	"x'; DROP TABLE agent_message; --", "../x", "a b", "a\x00b", "\xff\xfe", "İstanbul", "\u212aelvin", "a\u0301", "-a",
	"_a", "1a", "a\"b", "a%b",
	"agent_message", "%s%d%n", "name\n", "\u202eecila", "ａｂｃ",
}

// grammar is that of the document: names match without regard to case, and only ASCII letters have a case here.
var grammar = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,56}$`)

// nameDesk tests names: it has a router with an agent a, and another connection that detects every write.
type nameDesk struct {
	*delivery.Engine
	plain *sql.DB
}

func newNameDesk(t testing.TB) *nameDesk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mailroom.db")
	e := enginetest.OpenWith(t,
		ledger.Options{Path: path, Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}}})
	if _, _, err := agents.Add(t.Context(), e.Ledger, agents.Update{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	d := &nameDesk{Engine: e, plain: enginetest.Plain(t, path)}
	d.plain.SetMaxOpenConns(1) // data_version belongs to one connection
	return d
}

// version changes whenever another connection writes to the database.
func (d *nameDesk) version(t *testing.T) (v int64) {
	t.Helper()
	if err := d.plain.QueryRow(`PRAGMA data_version`).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// check checks that a name is accepted exactly if the grammar matches it, and that only its ASCII letters are
// folded. Every function that takes a name must refuse an invalid one with a printable error and without a write. A
// new agent with a valid name has its view and leaves nothing behind.
func (d *nameDesk) check(t *testing.T, name string) (malformed bool) {
	folded, err := orchestrator.CheckName("agent", name)
	if good := grammar.MatchString(name); good != (err == nil) {
		t.Fatalf("%q: %v; the grammar says %t", name, err, good)
	}
	if err != nil {
		d.refused(t, name)
		return true
	}
	if ascii := strings.Map(lowerASCII, name); folded != ascii {
		t.Fatalf("%q became %q; want %q", name, folded, ascii)
	}
	if again, err := orchestrator.CheckName("agent", folded); err != nil || again != folded {
		t.Fatalf("%q became %q, then %q, %v", name, folded, again, err)
	}
	if folded == "a" {
		return false
	}
	_, created, err := agents.Add(t.Context(), d.Ledger, agents.Update{Name: name, InboxView: new(true)})
	if err != nil {
		mustBeShowable(t, name, err)
		return true // reserved
	}
	var views int
	err = d.plain.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE type = 'view' AND name = ?`,
		folded+"_inbox").Scan(&views)
	if err != nil || views != 1 || !created {
		t.Errorf("%q: created %t, %d views, %v", name, created, views, err)
	}
	if _, err := removal.Remove(t.Context(), d.Ledger, removal.Request{Name: name}); err != nil {
		t.Errorf("%q: %v", name, err)
	}
	return false
}

// TestNamesFoldInASCII checks that no letter of another alphabet counts as one of ours, wherever an agent is looked
// up.
func TestNamesFoldInASCII(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "kelvin")
	for _, name := range []string{"\u212aelvin", "kelv\u0130n"} {
		if _, err := orchestrator.CheckName("agent", name); orchestrator.CodeOf(err) != orchestrator.InvalidParams {
			t.Errorf("CheckName of %q: %v", name, err)
		}
		if _, err := agents.Get(t.Context(), f.Ledger, name); orchestrator.CodeOf(err) != orchestrator.NotFound {
			t.Errorf("Agent %q: %v", name, err)
		}
		if _, err := removal.Remove(t.Context(), f.Ledger,
			removal.Request{Name: name}); orchestrator.CodeOf(err) != orchestrator.NotFound {
			t.Errorf("Remove of %q: %v", name, err)
		}
	}
	if a, err := agents.Get(t.Context(), f.Ledger, "KELVIN"); err != nil || a.Name != "kelvin" {
		t.Errorf("Agent KELVIN: %+v, %v", a, err)
	}
}

func lowerASCII(c rune) rune {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// refused checks that everything that takes a name refuses it, without a write.
func (d *nameDesk) refused(t *testing.T, name string) {
	t.Helper()
	before := d.version(t)
	send := func(sender, recipient string) error {
		_, err := messages.Send(t.Context(), d.Ledger,
			orchestrator.Draft{Sender: sender, Recipient: recipient, Type: "note"})
		return err
	}
	_, _, added := agents.Add(t.Context(), d.Ledger, agents.Update{Name: name})
	_, grouped := agents.SetGroup(t.Context(), d.Ledger, name, nil)
	_, joined := agents.SetGroup(t.Context(), d.Ledger, "g", []string{name})
	for what, err := range map[string]error{
		"AddAgent": added, "SetGroup": grouped, "a member": joined, "a sender": send(name, "a"),
		"a recipient": send("a", name),
	} {
		if err == nil {
			t.Errorf("%s takes %q", what, name)
			continue
		}
		mustBeShowable(t, name, err)
	}
	if after := d.version(t); after != before {
		t.Errorf("%q is refused, and something was written", name)
	}
}

// mustBeShowable checks an error about a name: invalid_params, with a text that no name can spoil.
func mustBeShowable(t *testing.T, name string, err error) {
	t.Helper()
	says := err.Error()
	strange := func(c rune) bool { return c < ' ' || c == 0x7f || c == '\u202e' }
	if orchestrator.CodeOf(err) != orchestrator.InvalidParams || says == "" || len(says) > 500 ||
		!utf8.ValidString(says) ||
		slices.ContainsFunc([]rune(says), strange) {
		t.Errorf("%q: the error is %s: %q", name, orchestrator.CodeOf(err), says)
	}
}

func FuzzName(f *testing.F) {
	for _, seed := range nameSeeds {
		f.Add(seed)
	}
	desk := newNameDesk(f)
	f.Fuzz(func(t *testing.T, name string) { desk.check(t, name) })
}

// TestMalformedNames replays the stored inputs of FuzzName.
func TestMalformedNames(t *testing.T) {
	t.Parallel()
	desk := newNameDesk(t)
	corpus.Target{
		Name: "FuzzName", Package: "mailroom/orchestrator/agents", Seeds: nameSeeds,
		Tokens: []string{" ", "'", `"`, ";", "\x00", "\n", "/", "..", "%", "\xff", "\u212a", "\u0130", "\u0307",
			"\u200b", "ä", ".", "@", strings.Repeat("n", 50)},
		Check: desk.check,
	}.Replay(t, 2500)
}
