package orchestratortest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"runtime"
	"slices"
	"strings"

	"mailroom/orchestrator"
)

var errVague = errors.New("something went wrong")

// every returns the same error for every message.
func every(a orchestrator.Attempt, err error) []error {
	errs := make([]error, len(a.Messages))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// changed returns an attempt with changed messages.
func changed(a orchestrator.Attempt, change func(m *orchestrator.Message)) orchestrator.Attempt {
	a.Messages = slices.Clone(a.Messages)
	for i := range a.Messages {
		change(&a.Messages[i])
	}
	return a
}

func bad(m *orchestrator.Message) bool { return addEntry(&bytes.Buffer{}, m) != nil }

// remade returns a payload decoded into a value and encoded again.
func remade(payload json.RawMessage, escape bool) json.RawMessage {
	var v any
	if json.Unmarshal(payload, &v) != nil {
		return payload
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(escape)
	if enc.Encode(v) != nil {
		return payload
	}
	return b.Bytes()
}

func unmarked(context.Context, string) error { return nil }

var faults = []fault{
	{"delivers twice", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			errs := p.Deliver(ctx, a)
			a.Mark = unmarked
			p.Deliver(ctx, a)
			return errs
		}
	}, "but Check LostEvidence/0 LostEvidence/1", true},
	{"delivers twice when it repeats", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			if a.Messages[0].Crashes > 0 {
				p.Deliver(ctx, a)
			}
			return p.Deliver(ctx, a)
		}
	}, "Repeats", false},
	{"delivers nothing", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error { return make([]error, len(a.Messages)) }
	}, "but Check", false},
	{"delivers the beginning of a large batch", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			all := len(a.Messages)
			a.Messages = a.Messages[:min(all, 7)]
			return append(p.Deliver(ctx, a), make([]error, all-len(a.Messages))...)
		}
	}, "LargestBatch", true},
	{"hides its errors", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			p.Deliver(ctx, a)
			return make([]error, len(a.Messages))
		}
	}, "BadMessageFailsAlone Blocked EndedContext LeaseLost MarkFails Refused", true},
	{"says nothing in its errors", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			errs := p.Deliver(ctx, a)
			for i, err := range errs {
				if err != nil {
					errs[i] = errVague
				}
			}
			return errs
		}
	}, "LeaseLost MarkFails Refused", true},
	{"reports a failure although it delivered", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			p.Deliver(ctx, a)
			return every(a, errVague)
		}
	}, "but Check", true},
	{"reverses a batch", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			a.Messages = slices.Clone(a.Messages)
			slices.Reverse(a.Messages)
			errs := p.Deliver(ctx, a)
			slices.Reverse(errs)
			return errs
		}
	}, "BadMessageFailsAlone Blocked Concurrent EndedContext LargestBatch LeaseLost Order Payloads RecoverDelivered Refused", true},
	{"sorts a batch by id", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			a.Messages = slices.Clone(a.Messages)
			slices.SortFunc(a.Messages, func(x, y orchestrator.Message) int { return strings.Compare(x.ID, y.ID) })
			return p.Deliver(ctx, a)
		}
	}, "BadMessageFailsAlone Order", true},
	{"begins although its context has ended", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			if ctx.Err() != nil {
				ctx = context.WithoutCancel(ctx)
			}
			return p.Deliver(ctx, a)
		}
	}, "EndedContext", true},
	{"hangs and never looks at its context", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			return p.Deliver(context.WithoutCancel(ctx), a)
		}
	}, "Blocked EndedContext", true},
	{"hangs although its context has ended", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			ctx.Done()
			if ctx.Err() != nil {
				return every(a, ctx.Err())
			}
			return p.Deliver(context.WithoutCancel(ctx), a)
		}
	}, "Blocked", true},
	{"delivers with the next what it gave up", func(p *paper, b *broken) {
		var kept []orchestrator.Attempt
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			for ctx.Err() == nil && len(kept) > 0 {
				p.Deliver(ctx, kept[0])
				kept = kept[1:]
			}
			errs := p.Deliver(ctx, a)
			if ctx.Err() != nil {
				kept = append(kept, a)
			}
			return errs
		}
	}, "Blocked EndedContext MarkFails", true},
	{"takes numbers for floats", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			return p.Deliver(ctx, changed(a, func(m *orchestrator.Message) {
				if !bytes.ContainsAny(m.Payload, `<{\`) && !bad(m) {
					m.Payload = remade(m.Payload, false)
				}
			}))
		}
	}, "Payloads", true},
	{"escapes HTML", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			return p.Deliver(ctx, changed(a, func(m *orchestrator.Message) {
				if text := string(m.Payload); strings.Contains(text, "&amp;") {
					m.Payload = []byte(`"` + html.EscapeString(strings.Trim(text, `"`)) + `"`)
				}
			}))
		}
	}, "Payloads", true},
	{"sorts the keys of a payload", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			return p.Deliver(ctx, changed(a, func(m *orchestrator.Message) {
				if bytes.HasPrefix(m.Payload, []byte("{")) && !bad(m) {
					m.Payload = remade(m.Payload, false)
				}
			}))
		}
	}, "Payloads", true},
	{"cuts long payloads", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			return p.Deliver(ctx, changed(a, func(m *orchestrator.Message) {
				if len(m.Payload) > 1<<16 {
					m.Payload = []byte(`"too long"`)
				}
			}))
		}
	}, "Payloads", true},
	{"fails a batch for one bad message", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			for i := range a.Messages {
				if bad(&a.Messages[i]) {
					return every(a, errVague)
				}
			}
			return p.Deliver(ctx, a)
		}
	}, "BadMessageFailsAlone", true},
	{"makes null of a bad payload", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			return p.Deliver(ctx, changed(a, func(m *orchestrator.Message) {
				if bad(m) {
					m.Payload = []byte("null")
				}
			}))
		}
	}, "BadMessageFailsAlone", true},
	{"returns too few errors", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error { return p.Deliver(ctx, a)[1:] }
	}, "but Check", false},
	{"returns too many errors", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error { return append(p.Deliver(ctx, a), nil) }
	}, "but Check", false},
	{"never finds what it delivered", func(p *paper, b *broken) {
		b.ask = func(context.Context, orchestrator.Attempt) (bool, error) { return false, nil }
	}, "LostEvidence/0 LostEvidence/1 RecoverAmongOthers RecoverBlocked RecoverDelivered RecoverTorn StrangeNote",
		true},
	{"finds what it never delivered", func(p *paper, b *broken) {
		b.ask = func(context.Context, orchestrator.Attempt) (bool, error) { return true, nil }
	}, "LostEvidence/0 LostEvidence/1 MarkFails RecoverAmongOthers RecoverBlocked RecoverTorn RecoverUnwritten StrangeNote", true},
	{"guesses where it cannot know", func(p *paper, b *broken) {
		b.ask = func(ctx context.Context, a orchestrator.Attempt) (bool, error) {
			found, err := p.Recover(ctx, a)
			if errors.Is(err, orchestrator.ErrUndecidable) {
				return false, nil
			}
			return found, err
		}
	}, "LostEvidence/0 LostEvidence/1 StrangeNote", true},
	{"finds an id within another text", func(p *paper, b *broken) {
		b.ask = func(ctx context.Context, a orchestrator.Attempt) (bool, error) {
			found, err := p.Recover(ctx, a)
			if text, _ := os.ReadFile(a.Address); err == nil && !found {
				found = bytes.Contains(text, []byte(a.Messages[0].ID))
			}
			return found, err
		}
	}, "RecoverAmongOthers RecoverTorn", true},
	{"finds a torn message", func(p *paper, b *broken) {
		b.ask = func(ctx context.Context, a orchestrator.Attempt) (bool, error) {
			found, err := p.Recover(ctx, a)
			if text, _ := os.ReadFile(a.Address); err == nil && !found {
				found = bytes.Contains(text, fmt.Appendf(nil, `{"id":%q,"payl`, a.Messages[0].ID))
			}
			return found, err
		}
	}, "RecoverTorn", true},
	{"writes behind a torn message", func(p *paper, b *broken) { p.tearing = true }, "RecoverTorn", true},
	{"leaves its mark when it has delivered", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			mark, note := a.Mark, ""
			a.Mark = func(_ context.Context, text string) error {
				note = text
				return nil
			}
			errs := p.Deliver(ctx, a)
			if err := mark(ctx, note); err != nil {
				return every(a, err)
			}
			return errs
		}
	}, "LeaseLost MarkFails RecoverTorn", true},
	{"leaves no mark", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			a.Mark = unmarked
			return p.Deliver(ctx, a)
		}
	}, "LeaseLost LostEvidence/0 LostEvidence/1 MarkFails RecoverAmongOthers RecoverBlocked RecoverDelivered RecoverTorn RecoverUnwritten", true},
	{"delivers without the lease", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			mark := a.Mark
			a.Mark = func(ctx context.Context, note string) error {
				if err := mark(ctx, note); !errors.Is(err, orchestrator.ErrLeaseLost) {
					return err
				}
				return nil
			}
			return p.Deliver(ctx, a)
		}
	}, "LeaseLost", true},
	{"delivers what it could not mark", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			mark := a.Mark
			a.Mark = func(ctx context.Context, note string) error {
				if err := mark(ctx, note); errors.Is(err, orchestrator.ErrLeaseLost) {
					return err
				}
				return nil
			}
			return p.Deliver(ctx, a)
		}
	}, "MarkFails", true},
	{"is not made for two at a time", func(p *paper, b *broken) {
		p.unlocked = true
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			mark := a.Mark
			a.Mark = func(ctx context.Context, note string) error {
				for range 10_000 { // lets other goroutines run between reading and writing
					runtime.Gosched()
				}
				return mark(ctx, note)
			}
			return p.Deliver(ctx, a)
		}
	}, "Blocked Concurrent", true},
	{"has addresses that are not canonical", func(p *paper, b *broken) {
		b.check = func(address string) (string, error) {
			canonical, err := p.Check(address)
			return canonical + "/.", err
		}
	}, "Check", true},
	{"takes every address", func(p *paper, b *broken) {
		b.check = func(address string) (string, error) { return address, nil }
	}, "Check", true},
	{"repeats under another id", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			return p.Deliver(ctx, changed(a, func(m *orchestrator.Message) {
				if m.RetryCount > 0 {
					m.ID = fmt.Sprintf("%s-%d", m.ID, m.RetryCount)
				}
			}))
		}
	}, "Repeats", false},
	{"repeats with another payload", func(p *paper, b *broken) {
		b.deliver = func(ctx context.Context, a orchestrator.Attempt) []error {
			return p.Deliver(ctx, changed(a, func(m *orchestrator.Message) {
				if m.Crashes > 0 {
					m.Payload = fmt.Appendf(nil, `{"crashes":%d,"of":%s}`, m.Crashes, m.Payload)
				}
			}))
		}
	}, "Repeats", false},
}
