package powerloss

import (
	"math/rand/v2"
	"slices"
)

// fate selects which of the writes that no sync covers reach the disk.
type fate int

const (
	nothing fate = iota // none of the writes
	everything
	prefix // the writes up to some moment
	some   // any of the writes, each as a whole
	newest // the last writes, without the earlier ones
	torn   // each sector in any of the states that it had
)

// fates lists the values to choose from. Repeated values are more likely.
var fates = []fate{nothing, nothing, everything, prefix, some, newest, torn, torn}

func pick(r *rand.Rand) fate { return fates[r.IntN(len(fates))] }

func (f fate) namingArrives(r *rand.Rand, i, n int) bool {
	switch f {
	case nothing:
		return false
	case everything:
		return true
	case newest:
		return i == n-1
	}
	return r.IntN(2) == 0
}

// crash returns a possible content of a file on the disk after a power failure. Each sector has its content after one
// of the writes to it since the last sync, or its content at the last sync, because the system writes back a whole
// sector at a time, with all earlier writes to it. The choice for one sector is independent of every other sector,
// and of the size.
func (f *file) crash(r *rand.Rand, how fate) []byte {
	n := len(f.pending)
	if n == 0 || how == nothing {
		return f.durable
	}
	arrives := arrivals(r, how, n)
	sizes := []int64{int64(len(f.durable))}
	longest := sizes[0]
	for _, c := range f.pending {
		size := c.at
		if !c.truncate {
			size = max(sizes[len(sizes)-1], c.at+int64(len(c.data)))
		}
		sizes = append(sizes, size)
		longest = max(longest, size)
	}
	image := make([]byte, longest)
	copy(image, f.durable)
	last := make([]int32, (longest+sector-1)/sector) // the number of changes that each sector contains
	for i, c := range f.pending {
		from, to := c.at, c.at+int64(len(c.data))
		if c.truncate {
			to = longest
		}
		for s := from / sector; s*sector < to; s++ {
			if how == torn && r.IntN(2) == 0 || how != torn && arrives[i] {
				last[s] = int32(i + 1)
			}
		}
	}
	for i, c := range f.pending {
		from, to := c.at, c.at+int64(len(c.data))
		if c.truncate {
			to = longest
		}
		for s := from / sector; s*sector < to; s++ {
			if last[s] <= int32(i) {
				continue
			}
			start, end := max(from, s*sector), min(to, (s+1)*sector)
			if c.truncate {
				clear(image[start:end])
			} else {
				copy(image[start:end], c.data[start-from:end-from])
			}
		}
	}
	return image[:sizeOf(r, how, arrives, sizes)]
}

// arrivals chooses which changes reach the disk.
func arrivals(r *rand.Rand, how fate, n int) []bool {
	arrives := make([]bool, n)
	cut, share := r.IntN(n+1), []float64{0.1, 0.5, 0.9}[r.IntN(3)]
	for i := range arrives {
		switch how {
		case everything:
			arrives[i] = true
		case prefix:
			arrives[i] = i < cut
		case newest:
			arrives[i] = i >= n-1-cut/4
		default:
			arrives[i] = r.Float64() < share
		}
	}
	return arrives
}

// sizeOf chooses one of the sizes of the file since the last sync.
func sizeOf(r *rand.Rand, how fate, arrives []bool, sizes []int64) int64 {
	switch how {
	case everything:
		return sizes[len(sizes)-1]
	case prefix:
		for i, a := range arrives {
			if !a {
				return sizes[i]
			}
		}
		return sizes[len(sizes)-1]
	}
	switch r.IntN(3) {
	case 0:
		return sizes[len(sizes)-1]
	case 1:
		return slices.Max(sizes)
	}
	return sizes[r.IntN(len(sizes))]
}
