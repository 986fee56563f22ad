package delivery_test

import (
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
)

// TestMarksWrittenByHand checks that a note is stored with a message whatever somebody has written into the column,
// and that unreadable content is then removed.
func TestMarksWrittenByHand(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect", "builder")
	id := f.Send("architect", "builder")
	seq := f.Message(id).Seq
	for written, stored := range map[string]string{
		``:                        `{"wire:a":"here"}`,
		`{}`:                      `{"wire:a":"here"}`,
		`{"jsonl:/b":"there"}`:    `{"jsonl:/b":"there","wire:a":"here"}`,
		`null`:                    `{"wire:a":"here"}`,
		`{"wire:a":1,"b":"gone"}`: `{"wire:a":"here"}`,
		`[]`:                      `{"wire:a":"here"}`,
		`x`:                       `{"wire:a":"here"}`,
	} {
		if err := f.Write(t.Context(), store.Alone, func(tx *ledger.Tx) error {
			m := orchestrator.Message{Seq: seq, Marks: written}
			return delivery.AddMark(tx, &m, "wire:a", "here")
		}); err != nil {
			t.Errorf("%q: %v", written, err)
		}
		want.Equal(t, written, f.Message(id).Marks, stored)
	}
}
