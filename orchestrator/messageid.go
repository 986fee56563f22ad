package orchestrator

// messageID names a message about to be stored: as the draft would have it, or with an id of our own.
func (t *tx) messageID(d *Draft, recipient string) (string, error) {
	if d.MakeID == nil {
		return t.newID("msg-")
	}
	at := parseStamp(t.now)
	sequence, err := firstFree(func(n int) (bool, error) {
		found, err := t.number(`
			SELECT EXISTS (SELECT 1 FROM agent_message WHERE message_id = ?1)
			    OR EXISTS (SELECT 1 FROM agent_message_archive WHERE message_id = ?1)`, d.MakeID(recipient, at, n))
		return found != 0, err
	})
	return d.MakeID(recipient, at, sequence), err
}

// firstFree finds a number, from 1, that is free and stands behind one that is taken: the first free one where no number
// below a taken one is free. It asks about as often as the number has binary digits, twice over.
func firstFree(taken func(n int) (bool, error)) (int, error) {
	free, last := 1, 0 // last is taken
	for {
		is, err := taken(free)
		if err != nil {
			return 0, err
		}
		if !is {
			break
		}
		free, last = 2*free, free
	}
	for free-last > 1 {
		middle := last + (free-last)/2
		is, err := taken(middle)
		if err != nil {
			return 0, err
		}
		if is {
			last = middle
		} else {
			free = middle
		}
	}
	return free, nil
}
