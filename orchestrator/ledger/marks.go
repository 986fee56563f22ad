package ledger

import (
	"encoding/json"

	"mailroom/orchestrator"
)

// MarksOf returns the notes that transports left with a message (see orchestrator.Attempt.Mark), by target.
func MarksOf(m *orchestrator.Message) map[string]string {
	marks := map[string]string{}
	if m.Marks != "" && json.Unmarshal([]byte(m.Marks), &marks) != nil {
		return nil
	}
	return marks
}

// AddMark stores the note of a transport with a message, in the row and in m. The notes of other targets stay. An empty note
// removes it.
func (t *Tx) AddMark(m *orchestrator.Message, target, note string) error {
	marks := map[string]string{}
	if m.Marks != "" {
		if err := json.Unmarshal([]byte(m.Marks), &marks); err != nil {
			marks = map[string]string{} // written by hand; it says nothing
		}
	}
	if marks[target] = note; note == "" {
		delete(marks, target)
	}
	if m.Marks = ""; len(marks) > 0 {
		text, err := json.Marshal(marks)
		if err != nil {
			return err
		}
		m.Marks = string(text)
	}
	_, err := t.Exec(`UPDATE agent_message SET delivery_marks = ? WHERE seq = ?`, m.Marks, m.Seq)
	return err
}
