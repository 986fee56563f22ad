//go:build hosts

package main

// worksTwice makes the model call a tool twice in one answer, with commands that wait at gates. It checks that a
// message shown between the ends of the two commands is not read yet, because the model has not been asked again.
func (s *session) worksTwice(r *request, tool string, at func(*gate) map[string]any) {
	s.t.Helper()
	first, second := s.newGate(), s.newGate()
	r.callsBoth(tool, at(first), at(second))
	first.reached()
	id := s.send("Look at the build.")
	first.open()
	s.await(`SELECT count(*) FROM reading_lease`, "1")
	second.reached()
	second.open()
	r = s.asks()
	r.shows(id)
	s.stand("shown")
	s.finishes(r, "read")
}
