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

// Run is one run of a contestant, or of a role that a contestant started, with its resources. Like a test, a run ends
// at its first failure (see check and must), and then calls the functions that were registered with after.
type Run struct {
	Dir      string  // empty at the start; the driver removes it afterwards
	Mailroom string  // the path of the built program
	Scale    float64 // multiplies sizes and counts; 1 in a full run, smaller in a trial

	ctx    context.Context
	server *pgServer // nil unless the case runs on a server
	ends   []func() error
}

// failure is the panic value of check and must. attempt returns its error.
type failure struct{ error }

// check ends the run if err is not nil. Only the goroutine of the run may call it.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns v. If err is not nil, must ends the run.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// attempt calls f and returns the error that ended it, if any.
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

// after registers a function to call at the end of the run. The last registered function is called first.
func (r *Run) after(f func() error) { r.ends = append(r.ends, f) }

// do calls f, and then the functions that were registered with after.
func (r *Run) do(f func()) error {
	errs := []error{attempt(f)}
	for _, end := range slices.Backward(r.ends) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// scaled returns n multiplied by the scale of the run, but at least least.
func (r *Run) scaled(n, least int) int { return max(least, int(float64(n)*r.Scale)) }

// scaledTime returns d multiplied by the scale of the run, but at least least.
func (r *Run) scaledTime(d, least time.Duration) time.Duration {
	return max(least, time.Duration(float64(d)*r.Scale))
}

// rest waits for d. It ends the run if the context of the run ends first.
func (r *Run) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.ctx.Done():
		check(context.Cause(r.ctx))
	}
}

// measureSends runs n senders in this process for three seconds. Each sender sends one message after another. On a
// server, each sender sends one message before the measurement, so that everything is open and prepared.
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
		check(send(0)) // the first send opens what is opened on demand
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

// rate measures the number of operations per second. f performs the operations and returns their number. On a server,
// rate also measures the processor time of the server per operation.
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

// timed returns the median time of n calls of do. It calls prepare before each call. Five more calls run first and
// are not counted.
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

// medianOf returns the median of ds. It sorts ds.
func medianOf(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// expect ends the run if the number of messages is not as expected.
func expect(got, want int) {
	if got != want {
		check(fmt.Errorf("%d messages in place of %d", got, want))
	}
}

// expectSome ends the run if n is 0.
func expectSome(n int) {
	if n == 0 {
		check(errors.New("nothing was done"))
	}
}

// uptime returns the time since the machine started. Unlike other clocks, this one is the same in all processes and
// is never set.
func uptime() time.Duration {
	var t unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)) // every Linux and macOS has this clock
	return time.Duration(t.Nano())
}

// cpuTime returns the processor time that a process has used so far.
func cpuTime(pid int) time.Duration {
	const scheduled = 2                               // CPUCLOCK_SCHED
	clock := int32(int64(^pid)<<3 | int64(scheduled)) // MAKE_PROCESS_CPUCLOCK of the kernel's headers
	var t unix.Timespec
	check(unix.ClockGettime(clock, &t))
	return time.Duration(t.Nano())
}

// idleCPU watches a process that should be idle, and returns the processor time that it used, in milliseconds per
// second.
func (r *Run) idleCPU(pid int, watched time.Duration) float64 {
	before, began := cpuTime(pid), uptime()
	r.rest(watched)
	return milliseconds(cpuTime(pid)-before) / (uptime() - began).Seconds()
}
