package adoption

import (
	"math"

	"mailroom/orchestrator/ledger"
)

// All adopts all rows that others wrote, including the newest. Call it in the transaction that selects the next
// deliveries, so that a row written since the last Tidy is not overtaken by a later row of its sender.
func All(t *ledger.Tx) error {
	for more, last := true, int64(math.MinInt64); more; {
		if err := t.Ended(); err != nil {
			return err
		}
		var err error
		if more, last, err = adoptAfter(t, last); err != nil {
			return err
		}
	}
	return nil
}

// WrittenSince adopts rows for a request that has selected the next deliveries while others write. A row written
// since the call of All, and a selected later row of the same sender, would arrive in the wrong order. If there are
// such rows, the request is run again alone.
func WrittenSince(t *ledger.Tx) error {
	if t.IsAlone() {
		return nil
	}
	return All(t)
}
