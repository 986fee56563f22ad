package inspection

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/traffic"
)

// StatsParams selects the traffic to show.
type StatsParams struct {
	Since   string `json:"since,omitempty" desc:"period to count, such as 1h, 24h, or 7d; at most 90d" check:"max=16" default:"24h"`
	Every   string `json:"every,omitempty" desc:"length of an interval in whole hours, such as 1h or 1d, or in whole minutes if the period is at most 48h; the default depends on the period" check:"max=16"`
	Agent   string `json:"agent,omitempty" desc:"count only messages to this agent; also show how many messages it sent, and how much of its context messages used" check:"agent" arg:"1"`
	Waiting bool   `json:"waiting,omitempty" desc:"also count the messages that waited for each recipient at the end of each interval"`
}

// StatsResult is the traffic of a period.
type StatsResult struct {
	traffic.Report
	// what messages added to the contexts of the agent's models, if an agent is named
	Context *cost.Report `json:"context,omitempty"`
	agent   string
}

var statsCommand = commands.Define(vocabulary, "stats", stats)

func stats(ctx context.Context, env commands.Env, p StatsParams) (r StatsResult, err error) {
	q := traffic.Query{Recipient: p.Agent, Waiting: p.Waiting}
	if q.Since, err = period("since", p.Since); err != nil {
		return r, err
	}
	if q.Every = interval(q.Since); p.Every != "" {
		if q.Every, err = period("every", p.Every); err != nil {
			return r, err
		}
	}
	r.agent = p.Agent
	if r.Report, err = traffic.Of(ctx, env.Ledger, q); err != nil || p.Agent == "" {
		return r, err
	}
	if len(r.Recipients) == 0 && r.Total.Wrote == 0 {
		if _, err := agents.Get(ctx, env.Ledger, p.Agent); err != nil {
			return r, err
		}
	}
	of, err := cost.Of(ctx, env.Ledger, p.Agent, env.Ledger.Now().Add(-q.Since))
	r.Context = &of
	return r, err
}

// period parses the duration in a parameter.
func period(param, text string) (time.Duration, error) {
	d, err := orchestrator.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, orchestrator.Errorf(orchestrator.InvalidParams, "`%s` must be a duration, but is %q", param, text).
			WithHint("Use the form 90s, 10m, 1h, or 7d")
	}
	return d, nil
}

// interval returns the default length of an interval.
func interval(since time.Duration) time.Duration {
	switch {
	case since > 7*orchestrator.Day:
		return orchestrator.Day
	case since > 3*time.Hour:
		return time.Hour
	}
	return max(time.Minute, (since / 12).Truncate(time.Minute))
}

// Text writes a line for each recipient, and a bar for each interval.
func (r StatsResult) Text(w *terminal.Text) {
	if r.agent != "" && r.Total.Wrote > 0 {
		w.Printf("%s has sent %s since %s.\n", r.agent, orchestrator.Plural(int(r.Total.Wrote), "message"),
			w.When(r.Since))
	}
	if len(r.Recipients) == 0 {
		toWhom := ""
		if r.agent != "" {
			toWhom = " to " + r.agent
		}
		w.Printf("No messages have been sent%s since %s.\n", toWhom, w.When(r.Since))
		r.textContext(w)
		return
	}
	w.Printf("Since %s: %s sent, %d delivered, %d read, %d failed, %d expired.\n\n", w.When(r.Since),
		orchestrator.Plural(int(r.Total.Sent), "message"),
		r.Total.Delivered, r.Total.Read, r.Total.Failed, r.Total.Expired)
	header := []string{"RECIPIENT", "SENT", "DELIVERED", "READ", "FAILED", "PENDING", "UNREAD", "DELIVERED IN",
		"READ IN"}
	rows := terminal.Rows(r.Recipients, func(l *traffic.Line) []string {
		return []string{
			l.Recipient, fmt.Sprint(l.Sent), fmt.Sprint(l.Delivered), fmt.Sprint(l.Read),
			fmt.Sprint(l.Failed + l.Expired), fmt.Sprint(*l.Pending), fmt.Sprint(*l.Unread),
			spread(l.DeliveredAfter), spread(l.ReadAfter),
		}
	})
	if !w.SideBySide(header, rows) { // put the numbers in one table and the times in another
		const numbers = 7
		times := make([][]string, len(rows))
		for i, row := range rows {
			times[i] = append([]string{row[0]}, row[numbers:]...)
		}
		w.Table(header[:numbers], rows)
		w.Printf("\n")
		w.Table(append([]string{header[0]}, header[numbers:]...), times)
	}
	w.Printf("\n%s\n",
		w.Paint(terminal.Dim, "Times are the 50th, 95th, and 99th percentiles. Messages sent in each interval of "+r.Every+":"))
	most, longest := int64(1), int64(40)
	if w.Width > 0 {
		longest = max(10, min(longest, int64(w.Width)-20))
	}
	for _, l := range r.Intervals {
		most = max(most, l.Sent)
	}
	first := max(0, slices.IndexFunc(r.Intervals, func(l traffic.Line) bool { return l.Sent > 0 }))
	for _, l := range r.Intervals[first:] {
		w.Printf("%s  %s %d\n", w.At(orchestrator.ParseStamp(l.At), "01-02 15:04"),
			w.Paint(terminal.Green, strings.Repeat("#", int((l.Sent*longest+most-1)/most))), l.Sent)
	}
	if len(r.Waiting) > 0 {
		r.sayWaiting(w, first)
	}
	r.textContext(w)
}

// maxContext is the largest number of senders and types that are shown to a person.
const maxContext = 20

// textContext writes what messages added to the contexts of the agent's models.
func (r StatsResult) textContext(w *terminal.Text) {
	if r.Context == nil || r.Context.Bytes == 0 {
		return
	}
	w.Printf("\nMessages added %s (about %d tokens, estimated as bytes / 4) to the context of %s:\n\n", size(r.Context.Bytes),
		r.Context.Tokens, r.agent)
	lines := r.Context.Lines[:min(len(r.Context.Lines), maxContext)]
	terminal.TableOf(w, []string{"FROM", "TYPE", "HOW", "MESSAGES", "BYTES", "TOKENS"}, lines, func(l *cost.Line) []string {
		return []string{l.Sender, l.Type, string(l.Way), fmt.Sprint(l.Messages), fmt.Sprint(l.Bytes), fmt.Sprint(l.Tokens)}
	})
	if more := len(r.Context.Lines) - len(lines); more > 0 {
		w.Printf("and %d more\n", more)
	}
}

// size formats a number of bytes.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n, " bytes")
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1_000_000)
}

// sayWaiting writes how many messages waited at the end of each interval, starting with the interval first.
func (r StatsResult) sayWaiting(w *terminal.Text, first int) {
	w.Printf("\n%s\n", w.Paint(terminal.Dim, "Messages that were undelivered or unread at the end of each interval:"))
	header, rows := []string{"UNTIL"}, make([][]string, len(r.Intervals))
	for i := range rows {
		rows[i] = []string{"now"}
		if i+1 < len(rows) {
			rows[i][0] = w.At(orchestrator.ParseStamp(r.Intervals[i+1].At), "01-02 15:04")
		}
	}
	for _, of := range r.Waiting {
		header = append(header, of.Recipient)
		for i, n := range of.Messages {
			rows[i] = append(rows[i], fmt.Sprint(n))
		}
	}
	w.Table(header, rows[first:])
}

// spread formats percentiles of durations. It returns "" if nothing was counted.
func spread(p *traffic.Percentiles) string {
	if p == nil {
		return ""
	}
	return lasted(p.P50) + " / " + lasted(p.P95) + " / " + lasted(p.P99)
}

// lasted formats a duration in milliseconds with two or three digits.
func lasted(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d < time.Millisecond:
		return "<1 ms"
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", ms)
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}
