package adoption

import (
	"math"

	"mailroom/orchestrator/ledger"
)

// All adopts all that others wrote, however recently. Whoever picks what is delivered next calls it in the same
// transaction: a row written since the run was tidied up must not be passed by a later one of its sender.
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

// WrittenSince is All for a request that has picked what is delivered next beside others that write: a row that was
// written since All, and one of its sender behind it that was picked, would come in the wrong order. The request is
// then run again alone.
func WrittenSince(t *ledger.Tx) error {
	if t.IsAlone() {
		return nil
	}
	return All(t)
}
