package main

import (
	"time"

	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

var month = Case{
	Name:  "month",
	Title: "a month of 1,000,000 messages a day",
	About: "The case simulates 30 days with its own clock. In each of the 24 hours of a day, it sends, delivers, and reads " +
		"messages to ten recipients, which makes 1,000,000 messages a day. Each day, `clear_old` and `clear_traces` run with their " +
		"default settings, which archive delivered messages after seven days. The number at the end of a measure's name is the " +
		"day. `file_mb` is the size of the file after that day. `clear_s` is the time that `clear_old` took. The eighth day is the " +
		"first on which `clear_old` finds messages. `day_s` is the time that sending, delivering, and reading the messages of the " +
		"day took. `wal_mib` is the largest size of the WAL.",
	Contestants: []Contestant{{Name: "mailroom", Run: runMonth}},
	Targets:     []Target{{Measure: "wal_mib", Want: 16, AtMost: true}}, // the limit of clear-old
}

func runMonth(r *Run) Measures {
	workers := numbered("worker", 10)
	path := r.newMailroom(append(workers, "sender1")...)
	now := time.Now().Add(-30 * 24 * time.Hour)
	e := must(openMailroomAt(r.ctx, path, func() time.Time { return now }))
	r.after(e.Close)
	hourly, largest := r.scaled(1_000_000, 2400)/24, watchSize(path+"-wal")
	m := Measures{}
	for day := 1; day <= 30; day++ {
		began := time.Now()
		for range 24 {
			now = now.Add(time.Hour)
			r.sendBacklog(e, workers, hourly)
			must(e.DeliverAll(r.ctx, delivery.Options{}))
			r.readAll(e, workers)
		}
		worked := time.Since(began)
		began = time.Now()
		must(retention.ClearOld(r.ctx, e.Ledger, retention.ClearOptions{}))
		cleared := time.Since(began)
		_, _, err := retention.ClearTraces(r.ctx, e.Ledger, 0)
		check(err)
		size := float64(fileSize(path)) / 1e6
		switch day {
		case 1:
			m["day_s_1"] = worked.Seconds()
		case 8:
			m["file_mb_8"], m["clear_s_8"] = size, cleared.Seconds()
		case 15:
			m["file_mb_15"] = size
		case 30:
			m["file_mb_30"], m["clear_s_30"], m["day_s_30"] = size, cleared.Seconds(), worked.Seconds()
		}
	}
	m["wal_mib"] = float64(largest()) / (1 << 20)
	return m
}

// readAll reads all unread messages of these agents.
func (r *Run) readAll(e *delivery.Engine, names []string) {
	for _, name := range names {
		for more := true; more; {
			_, left, err := reading.Wait(r.ctx, e.Ledger, reading.Options{Recipient: name, Limit: 1000})
			check(err)
			more = left
		}
	}
}
