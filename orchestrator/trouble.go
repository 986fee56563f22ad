package orchestrator

// Trouble remembers the last failure of a repeated operation, so that a lasting failure is logged only once. The
// zero value means that the operation has not failed.
type Trouble struct{ said string }

// Changed records the latest result and reports whether to log it: a new failure, or the end of a failure.
func (t *Trouble) Changed(err error) bool {
	before := t.said
	if t.said = ""; err != nil {
		t.said = err.Error()
	}
	return t.said != before
}
