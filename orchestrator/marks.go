package orchestrator

import "encoding/json"

// marksOf returns the notes that transports left with a message, by target.
func (m *Message) marksOf() map[string]string {
	marks := map[string]string{}
	if m.marks != "" && json.Unmarshal([]byte(m.marks), &marks) != nil {
		return nil
	}
	return marks
}

// addMark stores the note of one transport with a row, and in m, beside those of others. An empty note removes it.
func (t *tx) addMark(m *Message, target, note string) error {
	marks := map[string]string{}
	if m.marks != "" {
		if err := json.Unmarshal([]byte(m.marks), &marks); err != nil {
			marks = map[string]string{} // written by hand; it says nothing
		}
	}
	if marks[target] = note; note == "" {
		delete(marks, target)
	}
	if m.marks = ""; len(marks) > 0 {
		text, err := json.Marshal(marks)
		if err != nil {
			return err
		}
		m.marks = string(text)
	}
	_, err := t.Exec(`UPDATE agent_message SET delivery_marks = ? WHERE seq = ?`, m.marks, m.seq)
	return err
}
