package orchestrator

// Trouble remembers how something that is done again and again failed last, so that a failure that lasts is logged once. Its zero
// value is that it did not fail.
type Trouble struct{ said string }

// Changed notes how it went this time, and reports whether that is news: a failure that is not the one before, or the end of one.
func (t *Trouble) Changed(err error) bool {
	before := t.said
	if t.said = ""; err != nil {
		t.said = err.Error()
	}
	return t.said != before
}
