package orchestratortest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest"
)

// paper is the smallest transport that passes the suite: a file of lines after a first line that contains its name.
// The mark of an attempt is that name and the size before the attempt.
type paper struct {
	lock     chan struct{}
	unlocked bool // a fault
	tearing  bool // a fault
}

type entry struct {
	ID      string          `json:"id"`
	Payload json.RawMessage `json:"payload"`
}

type mark struct {
	Name string
	Size int
}

func newPaper() *paper { return &paper{lock: make(chan struct{}, 1)} }

func (*paper) Check(address string) (string, error) {
	if !filepath.IsAbs(address) {
		return "", errors.New("a path is missing")
	}
	return filepath.Clean(address), nil
}

func (*paper) MaxBatch() int { return 20 }

func (p *paper) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages))
	var block bytes.Buffer
	for i := range a.Messages {
		errs[i] = addEntry(&block, &a.Messages[i])
	}
	if block.Len() == 0 {
		return errs
	}
	if err := p.write(ctx, a, block.Bytes()); err != nil {
		for i := range errs {
			errs[i] = errors.Join(errs[i], err)
		}
	}
	return errs
}

func addEntry(b *bytes.Buffer, m *orchestrator.Message) error {
	if !utf8.ValidString(m.ID) || !utf8.Valid(m.Payload) || !json.Valid(m.Payload) {
		return errors.New("the message cannot be written as JSON")
	}
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	return enc.Encode(entry{m.ID, m.Payload})
}

// write appends a block after the complete lines of the file.
func (p *paper) write(ctx context.Context, a orchestrator.Attempt, block []byte) error {
	if !p.unlocked {
		unlock, err := p.locked(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	file, err := os.OpenFile(a.Address, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := os.ReadFile(a.Address)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		text = []byte(rand.Text() + "\n")
		if _, err := file.WriteAt(text, 0); err != nil {
			return err
		}
	}
	if !p.tearing {
		text = whole(text)
	}
	if err := a.Mark(ctx, noteOf(text)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := file.Truncate(int64(len(text))); err != nil {
		return err
	}
	_, err = file.WriteAt(block, int64(len(text)))
	return errors.Join(err, file.Sync())
}

func (p *paper) locked(ctx context.Context) (unlock func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case p.lock <- struct{}{}:
		return func() { <-p.lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// whole returns the text without a last line that a kill has torn.
func whole(text []byte) []byte { return text[:bytes.LastIndexByte(text, '\n')+1] }

func noteOf(text []byte) string {
	name, _, _ := bytes.Cut(text, []byte("\n"))
	note, err := json.Marshal(mark{string(name), len(text)})
	if err != nil {
		panic(err)
	}
	return string(note)
}

func (p *paper) Recover(ctx context.Context, a orchestrator.Attempt) (bool, error) {
	unlock, err := p.locked(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	text, err := os.ReadFile(a.Address)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	var at mark
	name, _, _ := bytes.Cut(text, []byte("\n"))
	if json.Unmarshal([]byte(a.Messages[0].Mark), &at) != nil || at.Name == "" || at.Name != string(name) ||
		at.Size > len(text) {
		return false, fmt.Errorf("%s is another file now: %w", a.Address, orchestrator.ErrUndecidable)
	}
	for _, e := range entries(text[at.Size:]) {
		if e.ID == a.Messages[0].ID {
			return true, nil
		}
	}
	return false, nil
}

// entries parses the complete lines of a text.
func entries(text []byte) (list []entry) {
	for line := range bytes.Lines(whole(text)) {
		var e entry
		if json.Unmarshal(line, &e) == nil && e.ID != "" {
			list = append(list, e)
		}
	}
	return list
}

// onPaper returns a fixture of paper, or of a transport based on it.
func onPaper(t *testing.T, broken func(p *paper) orchestrator.Transport) orchestratortest.Fixture {
	folder := filepath.Join(t.TempDir(), "paper")
	check := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	check(os.Mkdir(folder, 0o700))
	path := filepath.Join(folder, "builder")
	p := newPaper()
	return orchestratortest.Fixture{
		Transport: broken(p),
		Address:   path,
		Refused:   []string{"", "builder"},
		Arrived: func(t *testing.T) (list []orchestratortest.Arrival) {
			text, err := os.ReadFile(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			for _, e := range entries(text) {
				list = append(list, orchestratortest.Arrival(e))
			}
			return list
		},
		Tear: func(t *testing.T) {
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			check(err)
			_, err = file.WriteString(`{"id":"second","payl`)
			check(errors.Join(err, file.Close()))
		},
		Lose: []func(t *testing.T){
			func(*testing.T) { check(os.Remove(path)) },
			func(*testing.T) { check(os.Truncate(path, 0)) },
		},
		Block: func(*testing.T) func() {
			p.lock <- struct{}{}
			return func() { <-p.lock }
		},
		Fail: func(*testing.T) func() {
			check(os.Rename(folder, folder+"-away"))
			return func() { check(os.Rename(folder+"-away", folder)) }
		},
		Says: "no such file",
	}
}
