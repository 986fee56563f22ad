package adoption

import (
	"math"

	"mailroom/orchestrator/ledger"
)

// All adopts all rows of other programs, however recent. A request that selects the next messages to deliver calls it
// in the same transaction. Otherwise a row written since the last tidying could be overtaken by a later one of its
// sender.
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

// WrittenSince adopts the rows that other programs wrote since All, for a request that has selected the next messages
// to deliver while others can write. Such a row, and a selected later row of its sender, would be delivered in the
// wrong order. If there is such a row, the request is run again alone.
func WrittenSince(t *ledger.Tx) error {
	if t.IsAlone() {
		return nil
	}
	return All(t)
}
