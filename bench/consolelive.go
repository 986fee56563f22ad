package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
)

var consoleLive = Case{
	Name:  "console-live",
	Title: "a page of the console that is open while 500 messages a second are sent",
	About: "`mailroom serve` delivers, and a process sends 500 messages a second. send_ratio is how long a send takes while somebody follows the stream of events and asks, as often as a page on " +
		"Messages does, divided by how long it takes otherwise: the median of pairs of phases of two seconds. No browser runs then. After that the page is open in Chromium, five seconds on each of " +
		"five views: long_tasks counts tasks of its main thread of more than 50 ms (PerformanceObserver); the longest on a view is said if there is one. seen_ms is the longest that it takes from a send " +
		"to its row on the page, in ten, beside the others.",
	Contestants: []Contestant{{Name: "mailroom", Run: runConsoleLive}},
	Targets: []Target{
		{Measure: "send_ratio", Want: 1.05, AtMost: true},
		{Measure: "long_tasks", Want: 0, AtMost: true},
		{Measure: "seen_ms", Want: 1000, AtMost: true},
	},
}

func runConsoleLive(ctx context.Context, env Env) (Measures, error) {
	path, err := makeConsoleDatabase(ctx, env, scaled(env, 100_000, 20_000))
	if err != nil {
		return nil, err
	}
	token, err := administrator(ctx, path)
	if err != nil {
		return nil, err
	}
	daemon, address, err := serveAt(ctx, env, path)
	if err != nil {
		return nil, err
	}
	sending := startSending(ctx, path)
	m := Measures{}
	err = costOfPage(ctx, env, m, sending, daemon.cmd.Process.Pid, address, token)
	if err == nil {
		err = watchPage(ctx, env, m, path, address)
	}
	return m, errors.Join(err, sending.end(), daemon.stop())
}

// costOfPage measures how much longer sends take while somebody asks what a page asks.
func costOfPage(ctx context.Context, env Env, m Measures, sends *steadily, daemon int, address, token string) error {
	phase := scaledTime(env, 2*time.Second, 500*time.Millisecond)
	if err := rest(ctx, phase); err != nil { // until all is open and prepared
		return err
	}
	sends.lately()
	measure := func(during func(context.Context) error) (took, cpu time.Duration, err error) {
		until, stop := context.WithTimeout(ctx, phase)
		defer stop()
		before, err := cpuTime(daemon)
		if err == nil {
			err = during(until)
		}
		after, err2 := cpuTime(daemon)
		list := sends.lately()
		if err := errors.Join(err, err2, expectSome(len(list))); err != nil {
			return 0, 0, err
		}
		return list[len(list)/2], after - before, nil
	}
	var ratios []float64
	var cpus [2]time.Duration
	n := scaled(env, 12, 3)
	for range n {
		alone, cpu, err := measure(func(until context.Context) error { <-until.Done(); return nil })
		if err != nil {
			return err
		}
		beside, more, err := measure(func(until context.Context) error { return actAsPage(until, address, token) })
		if err != nil {
			return err
		}
		ratios = append(ratios, float64(beside)/float64(alone))
		cpus[0], cpus[1] = cpus[0]+cpu, cpus[1]+more
	}
	m["send_ratio"] = summarize(ratios).median
	m["daemon_cpu_ms_per_s"] = inMicroseconds(cpus[0]) / 1000 / (phase * time.Duration(n)).Seconds()
	m["daemon_cpu_with_page_ms_per_s"] = inMicroseconds(cpus[1]) / 1000 / (phase * time.Duration(n)).Seconds()
	return nil
}

func expectSome(n int) error {
	if n == 0 {
		return errors.New("nothing was sent")
	}
	return nil
}

// actAsPage follows the stream of events, and asks what the view Messages asks, until ctx ends.
func actAsPage(ctx context.Context, address, token string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/v1/events", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	ids := make(chan []string, 1)
	go func() { // the newest messages of which there were events
		var held []string
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if _, id, is := strings.Cut(lines.Text(), `"message_id":"`); is {
				id, _, _ = strings.Cut(id, `"`)
				held = append(held[max(0, len(held)-499):], id)
				select {
				case <-ids:
				default:
				}
				ids <- slices.Clone(held)
			}
		}
	}()
	for i := 0; ; i++ {
		commands := [][2]string{{"messages_list", `{"limit":400}`}, {"status", `{}`}}
		select {
		case held := <-ids:
			commands = append(commands, [2]string{"messages_list", `{"message_ids":["` + strings.Join(held, `","`) + `"]}`})
		default:
		}
		if i%20 == 0 {
			commands = append(commands, [2]string{"now", `{}`})
		}
		for _, c := range commands {
			if _, err := asks(ctx, address, token, c[0], c[1], 1); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if rest(ctx, 500*time.Millisecond) != nil {
			return nil
		}
	}
}

// watchPage opens the page in a browser and watches it.
func watchPage(ctx context.Context, env Env, m Measures, path, address string) error {
	r, err := openMailroom(ctx, path)
	if err != nil {
		return err
	}
	defer r.Close()
	code, err := agents.IssueCode(ctx, r.Ledger)
	if err != nil {
		return err
	}
	allocator, cancel := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU)...)
	defer cancel()
	tab, cancel := chromedp.NewContext(allocator)
	defer cancel()
	if err := chromedp.Do(tab, chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/#code="+code)); err != nil {
		return err
	}
	watched := scaledTime(env, 5*time.Second, time.Second)
	for _, view := range []string{"/messages", "/", "/agents", "/threads", "/operations"} {
		long, err := chromedp.Run(tab, chromedp.Evaluate[[]float64](longTasks(view, watched), chromedp.EvalAwaitPromise))
		if err != nil {
			return fmt.Errorf("%s: %w", view, err)
		}
		m["long_tasks"] += float64(len(long))
		if len(long) > 0 {
			name := cmp.Or(strings.Trim(view, "/"), "now")
			m["longest_"+name+"_ms"] = slices.Max(long)
		}
	}
	if _, err := chromedp.Run(tab, chromedp.Evaluate[bool](show("/messages?type=mark"), chromedp.EvalAwaitPromise)); err != nil {
		return err
	}
	m["seen_ms"], err = untilSeen(ctx, r.Ledger, tab, scaled(env, 10, 3))
	return err
}

// untilSeen sends so many messages that the page of a tab is to show, and returns the longest that it took until one stood there, in
// milliseconds.
func untilSeen(ctx context.Context, l *ledger.Ledger, tab context.Context, n int) (longest float64, err error) {
	seen := func() (map[string]int64, error) {
		return chromedp.Run(tab, chromedp.Evaluate[map[string]int64](rowsSeen, chromedp.EvalAwaitPromise))
	}
	if _, err := seen(); err != nil {
		return 0, err
	}
	sent := map[string]int64{}
	for i := range n {
		says := fmt.Sprint("mark ", i)
		sent[says] = time.Now().UnixMilli()
		d := orchestrator.Draft{Sender: "sender1", Recipient: "worker1", Type: "mark", Payload: []byte(`"` + says + `"`)}
		if _, err := messages.Send(ctx, l, d); err != nil {
			return 0, err
		}
		if err := rest(ctx, 1100*time.Millisecond); err != nil {
			return 0, err
		}
	}
	if err := rest(ctx, 2*time.Second); err != nil {
		return 0, err
	}
	at, err := seen()
	for says, began := range sent {
		if at[says] == 0 {
			return 0, errors.Join(err, fmt.Errorf("%q is not on the page", says))
		}
		longest = max(longest, float64(at[says]-began))
	}
	return longest, err
}

// show goes to an address of the page, and waits until what belongs there is shown.
func show(path string) string {
	return fmt.Sprintf(`(async () => {
		history.pushState(null, "", %q);
		dispatchEvent(new PopStateEvent("popstate"));
		while (!document.querySelector(".live[title]") || !document.querySelector("main h1") || document.querySelector("[aria-busy=true]")) await new Promise((f) => setTimeout(f, 50));
		return true;
	})()`, path)
}

// longTasks shows an address, and returns how long the tasks of more than 50 ms took that came then.
func longTasks(path string, watched time.Duration) string {
	return fmt.Sprintf(`(async () => {
		await %s;
		await new Promise((f) => setTimeout(f, 1000));
		const found = [], note = (list) => list.forEach((task) => found.push(task.duration)), observer = new PerformanceObserver((list) => note(list.getEntries()));
		observer.observe({ type: "longtask" });
		await new Promise((f) => setTimeout(f, %d));
		note(observer.takeRecords());
		observer.disconnect();
		return found;
	})()`, show(path), watched.Milliseconds())
}

// rowsSeen returns when each row that the table has had since the first call came to be there.
const rowsSeen = `(async () => {
	if (!window.rowsSeen) {
		window.rowsSeen = {};
		const look = () => document.querySelectorAll(".stream .c-says").forEach((cell) => (window.rowsSeen[cell.textContent] ??= Date.now()));
		new MutationObserver(look).observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true });
	}
	return window.rowsSeen;
})()`
