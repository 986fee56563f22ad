package delivery

import (
	"encoding/json"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// MarksOf returns the notes that transports left with a message (see orchestrator.Attempt.Mark), by target. If the
// column was written by hand and cannot be parsed, the result is empty.
func MarksOf(m *orchestrator.Message) map[string]string {
	var marks map[string]string
	if json.Unmarshal([]byte(m.Marks), &marks) != nil || marks == nil {
		return map[string]string{}
	}
	return marks
}

// AddMark stores the note of a transport for a message, in the row and in m. The notes of other targets do not
// change. An empty note removes the target's note.
func AddMark(t *ledger.Tx, m *orchestrator.Message, target, note string) (err error) {
	if m.Marks, err = withMark(m, target, note); err != nil {
		return err
	}
	_, err = t.Exec(`UPDATE agent_message SET delivery_marks = ? WHERE seq = ?`, m.Marks, m.Seq)
	return err
}

// addMarkHeld stores the note of a transport for a message if the message is live and still has the given lease
// token. held reports whether it is; otherwise nothing is stored.
func addMarkHeld(t *ledger.Tx, m *orchestrator.Message, token, target, note string) (held bool, err error) {
	marks, err := withMark(m, target, note)
	if err != nil {
		return false, err
	}
	n, err := t.Exec(`UPDATE agent_message SET delivery_marks = ?1 WHERE seq = ?2 AND lease_token = ?3 AND `+
		ledger.Live, marks, m.Seq, token)
	if err != nil || n == 0 {
		return false, err
	}
	m.Marks = marks
	return true, nil
}

// withMark returns the notes of a message with the note of a target added, replaced or removed.
func withMark(m *orchestrator.Message, target, note string) (string, error) {
	marks := MarksOf(m)
	if marks[target] = note; note == "" {
		delete(marks, target)
	}
	if len(marks) == 0 {
		return "", nil
	}
	text, err := json.Marshal(marks)
	return string(text), err
}
