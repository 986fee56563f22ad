package traffic

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// base is the ratio of the bounds of a bucket. The middle of a bucket is at most 5 percent away from any duration in
// it.
const base = 1.1

// histogram counts durations by bucket. Bucket n, from 0, holds durations of at least base^n milliseconds and less
// than base^(n+1). Bucket -1 holds shorter ones.
type histogram map[int]int64

func bucketOf(d time.Duration) int {
	ms := d.Milliseconds()
	if ms < 1 {
		return -1
	}
	return int(math.Floor(math.Log(float64(ms))/math.Log(base) + 1e-9))
}

func (h *histogram) add(bucket int, n int64) {
	if *h == nil {
		*h = histogram{}
	}
	(*h)[bucket] += n
}

func (h *histogram) addAll(other histogram) {
	for bucket, n := range other {
		h.add(bucket, n)
	}
}

// text returns the histogram in the format of the table traffic.
func (h histogram) text() string {
	if len(h) == 0 {
		return "{}"
	}
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // a map of numbers
	}
	return string(text)
}

// parse reads a histogram from the table traffic. Text that is not a histogram, because it was changed by hand,
// yields an empty one. A report reads many histograms, so parse reads the format of text, {"12":3,"13":1}, without
// encoding/json.
func parse(text string) (h histogram) {
	for rest := strings.TrimPrefix(text, "{"); rest != "" && rest != "}"; {
		part, more, _ := strings.Cut(rest, ",")
		name, value, _ := strings.Cut(strings.TrimSuffix(part, "}"), ":")
		bucket, err := strconv.Atoi(strings.Trim(name, `"`))
		n, err2 := strconv.ParseInt(value, 10, 64)
		if err != nil || err2 != nil {
			return parseAny(text)
		}
		h.add(bucket, n)
		rest = more
	}
	return h
}

// parseAny reads a histogram that has another JSON format.
func parseAny(text string) (h histogram) {
	if json.Unmarshal([]byte(text), &h) != nil {
		return nil
	}
	return h
}

// Percentiles holds percentiles of durations, in milliseconds. Each is within 5 percent, or one millisecond, of the
// exact value.
type Percentiles struct {
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
	P99 float64 `json:"p99_ms"`
}

// percentiles returns the percentiles by nearest rank, or nil if nothing was counted.
func (h histogram) percentiles() *Percentiles {
	var total int64
	for _, n := range h {
		total += n
	}
	if total <= 0 {
		return nil
	}
	return &Percentiles{P50: h.rank((total*50 + 99) / 100), P95: h.rank((total*95 + 99) / 100),
		P99: h.rank((total*99 + 99) / 100)}
}

// rank returns the duration with a rank. Ranks begin at 1.
func (h histogram) rank(n int64) float64 {
	for _, bucket := range slices.Sorted(maps.Keys(h)) {
		if n -= h[bucket]; n > 0 {
			continue
		}
		if bucket < 0 {
			return 0
		}
		return math.Round(math.Pow(base, float64(bucket)+0.5)*10) / 10
	}
	return 0
}
