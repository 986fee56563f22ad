package transport_test

import (
	"net/http"
	"testing"
	"time"

	"mailroom/orchestrator/transport"
)

const mostWait = 30 * 24 * time.Hour

func TestWebhookRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2025, 10, 26, 10, 30, 0, 0, time.UTC)
	const date = "Sun, 26 Oct 2025 10:20:00 GMT" // from a receiver whose clock is slow
	for _, test := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0}, {"0", "", 0}, {"1", "", time.Second}, {" 120 ", "", 2 * time.Minute}, {"007", "", 7 * time.Second},
		{"-1", "", 0}, {"+1", "", 0}, {"1.5", "", 0}, {"1e3", "", 0}, {"0x10", "", 0}, {"1, 2", "", 0}, {"soon", "", 0},
		{"１", "", 0},
		{"2592000", "", mostWait}, {"2592001", "", mostWait}, {"9223372036854775807", "", mostWait},
		{"99999999999999999999999999", "", mostWait},
		{"Sun, 26 Oct 2025 10:31:00 GMT", "", time.Minute}, {"Sun, 26 Oct 2025 10:29:00 GMT", "", 0},
		{"Sunday, 26-Oct-25 10:31:00 GMT", "", time.Minute}, {"Sun Oct 26 10:31:00 2025", "", time.Minute},
		{"Sun, 26 Oct 2025 10:21:00 GMT", date, time.Minute}, {"Sun, 26 Oct 2025 10:19:00 GMT", date, 0},
		{"Sun, 26 Oct 2025 10:31:00 GMT", "today", time.Minute}, {"60", date, time.Minute},
		{"Fri, 31 Dec 9999 23:59:59 GMT", "", mostWait}, {"Mon, 01 Jan 0001 00:00:00 GMT", "", 0},
		{"Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", mostWait}, {"Sun, 26 Oct 2025", "", 0},
		{"2025-10-26T10:31:00Z", "", 0},
	} {
		h := http.Header{"Retry-After": {test.value}}
		if test.date != "" {
			h.Set("Date", test.date)
		}
		if got := transport.RetryAfter(h, now); got != test.want {
			t.Errorf("%q at %q: %s, want %s", test.value, test.date, got, test.want)
		}
	}
	if got := transport.RetryAfter(http.Header{}, now); got != 0 {
		t.Errorf("unsaid: %s", got)
	}
}

func FuzzWebhookRetryAfter(f *testing.F) {
	f.Add("120", "", int64(0))
	f.Add("Sun, 26 Oct 2025 10:31:00 GMT", "Sun, 26 Oct 2025 10:31:00 GMT", int64(1761474600))
	f.Fuzz(func(t *testing.T, value, date string, now int64) {
		h := http.Header{"Retry-After": {value}, "Date": {date}}
		if got := transport.RetryAfter(h, time.Unix(now, 0)); got < 0 || got > mostWait {
			t.Errorf("%q: %s", value, got)
		}
	})
}
