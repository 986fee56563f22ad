package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Run is one run of a contestant, or of a role that a contestant started, and what it may use. Like a test it ends at
// its first failure (check, must), and does then what was left for the end (after).
type Run struct {
	Dir      string  // empty, removed afterwards by the driver
	Mailroom string  // the built program
	Scale    float64 // 1 in a full run; smaller in a trial: sizes and counts are multiplied by it

	ctx    context.Context
	server *pgServer // where the case is one on a server
	ends   []func() error
}

// failure is what check and must panic with, and attempt returns.
type failure struct{ error }

// check ends the run if there is an error. Only the goroutine of the run may call it.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must is check for a function with a result.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// attempt calls f and returns the error at which it ended.
func attempt(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

// after leaves something for the end of the run. What is left last is done first.
func (r *Run) after(f func() error) { r.ends = append(r.ends, f) }

// do calls f, and does what was left for the end.
func (r *Run) do(f func()) error {
	errs := []error{attempt(f)}
	for _, end := range slices.Backward(r.ends) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// scaled is how often something is done in this run: n in a full one, never less than least.
func (r *Run) scaled(n, least int) int { return max(least, int(float64(n)*r.Scale)) }

// scaledTime is how long something is done in this run.
func (r *Run) scaledTime(d, least time.Duration) time.Duration {
	return max(least, time.Duration(float64(d)*r.Scale))
}

// rest waits.
func (r *Run) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.ctx.Done():
		check(context.Cause(r.ctx))
	}
}

// measureSends lets n senders of this process send, each one message after another, for three seconds. On a server
// each has sent one before: then everything is open and prepared.
func (r *Run) measureSends(n int, send func(sender int) error) Measures {
	counts, errs := make([]int, n), make([]error, n)
	together := func(each func(i int)) {
		var senders sync.WaitGroup
		for i := range n {
			senders.Go(func() { each(i) })
		}
		senders.Wait()
		check(errors.Join(errs...))
	}
	if r.server != nil {
		together(func(i int) { errs[i] = send(i) })
	} else {
		check(send(0)) // opens what is opened late
	}
	window := r.scaledTime(3*time.Second, 300*time.Millisecond)
	return r.rate(func() (sum int) {
		began := time.Now()
		together(func(i int) {
			for time.Since(began) < window && errs[i] == nil && r.ctx.Err() == nil {
				if errs[i] = send(i); errs[i] == nil {
					counts[i]++
				}
			}
		})
		for _, n := range counts {
			sum += n
		}
		return sum
	})
}

// rate measures how many operations there are a second, which f does and counts, and what a server spends on each.
func (r *Run) rate(f func() (n int)) Measures {
	var before time.Duration
	if r.server != nil {
		before = r.server.cpu()
	}
	began := time.Now()
	n := f()
	m := Measures{"rate_per_s": float64(n) / time.Since(began).Seconds()}
	expectSome(n)
	if r.server != nil {
		m["server_cpu_us"] = microseconds(r.server.cpu()-before) / float64(n)
	}
	return m
}

// timed returns the median time of do, before each of which prepare runs. The first of them are not counted.
func timed(n int, prepare, do func()) time.Duration {
	const warmUp = 5
	var took []time.Duration
	for i := range n + warmUp {
		prepare()
		began := time.Now()
		do()
		if i >= warmUp {
			took = append(took, time.Since(began))
		}
	}
	return medianOf(took)
}

// medianOf sorts ds.
func medianOf(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// expect ends the run if there were not as many messages as there should be.
func expect(got, want int) {
	if got != want {
		check(fmt.Errorf("%d messages in place of %d", got, want))
	}
}

// expectSome ends the run if nothing was done.
func expectSome(n int) {
	if n == 0 {
		check(errors.New("nothing was done"))
	}
}

// uptime is the time since the machine started. Unlike other clocks it is the same in all processes and never set.
func uptime() time.Duration {
	var t unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)) // no Linux or macOS is without it
	return time.Duration(t.Nano())
}

// cpuTime is what a process has used of the processors so far.
func cpuTime(pid int) time.Duration {
	const scheduled = 2                               // CPUCLOCK_SCHED
	clock := int32(int64(^pid)<<3 | int64(scheduled)) // MAKE_PROCESS_CPUCLOCK of the kernel's headers
	var t unix.Timespec
	check(unix.ClockGettime(clock, &t))
	return time.Duration(t.Nano())
}

// idleCPU watches a process that should do nothing, and returns the milliseconds of processor time that it used per
// second.
func (r *Run) idleCPU(pid int, watched time.Duration) float64 {
	before, began := cpuTime(pid), uptime()
	r.rest(watched)
	return milliseconds(cpuTime(pid)-before) / (uptime() - began).Seconds()
}
