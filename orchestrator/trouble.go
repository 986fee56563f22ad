package orchestrator

// Trouble remembers how something that is done repeatedly failed last, so that a failure that lasts is logged only
// once. The zero value means that it did not fail.
type Trouble struct{ said string }

// Changed notes how it went this time, and reports whether to log that: a new failure, or the end of one.
func (t *Trouble) Changed(err error) bool {
	before := t.said
	if t.said = ""; err != nil {
		t.said = err.Error()
	}
	return t.said != before
}
