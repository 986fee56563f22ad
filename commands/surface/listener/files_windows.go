package listener

import "math"

// maxFiles returns the maximum uint64, since Windows has no limit.
func maxFiles() uint64 { return math.MaxUint64 }
