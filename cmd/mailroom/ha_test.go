//go:build postgres

package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/ha"
	"mailroom/orchestrator/orchestratortest/history"
	"mailroom/orchestrator/orchestratortest/torture"
)

// faultTime is how long a fault and its repair may take on a busy machine.
const faultTime = 5 * time.Minute

// clusterFaults is how many faults TestCluster injects.
var clusterFaults = flag.Int("cluster-faults", len(ha.Faults), "how many of the faults TestCluster does")

// clusterFault limits TestCluster to faults whose names contain it.
var clusterFault = flag.String("cluster-fault", "", "part of the names of the faults that TestCluster does")

// TestCluster injects a number of faults into a cluster while the processes of three machines use it and are killed.
// All promises are checked for acknowledged messages. The test reports how long nothing was acknowledged.
func TestCluster(t *testing.T) {
	if err := ha.Missing(); err != nil {
		t.Fatal(err)
	}
	faults := slices.DeleteFunc(slices.Clone(ha.Faults),
		func(f ha.Fault) bool { return !strings.Contains(f.Name, *clusterFault) })
	faults = faults[:min(*clusterFaults, len(faults))]
	ctx, cancel := context.WithTimeout(t.Context(), faultTime)
	defer cancel()
	cluster, err := ha.Start(ctx)
	if cluster != nil {
		defer cluster.Stop()
	}
	if err != nil {
		t.Fatal(err, cluster.Logs())
	}
	seed := *tortureSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	trial := &trial{cluster: cluster, faults: faults, say: func(format string, args ...any) { t.Logf(format, args...) }}
	report, folder := tortured(t, torture.Config{
		Seed: seed, For: time.Duration(len(faults)) * 100 * time.Second,
		Database: cluster.Address() + "&search_path=mailroom", Restart: trial.next, Undoes: true, Log: t.Output(),
	})
	for _, problem := range report.Problems() {
		t.Error(problem)
	}
	trial.tell(t, folder)
	if len(trial.done) == 0 || report.Crashed == 0 || report.Handed == 0 {
		t.Errorf("%d faults, %d leases lost, %d messages read: something was not put to the test", len(trial.done),
			report.Crashed, report.Handed)
	}
	t.Logf("%d kills, %d sends acknowledged, %d left open, %d commands turned away, %d deliveries into inboxes, %d records of a reading undone",
		report.Kills, report.Acknowledged, report.Unsure, report.TurnedAway, report.Deliveries["inbox"], report.Undone)
	if t.Failed() {
		if err := cluster.Keep(t.Context(), folder); err != nil {
			t.Log(err)
		}
		t.Logf("the files, the history, the nodes' logs and a dump of the database are in %s", folder)
		return
	}
	os.RemoveAll(folder)
}

// trial is a run with faults in a cluster.
type trial struct {
	cluster *ha.Cluster
	faults  []ha.Fault // still to come
	say     func(format string, args ...any)
	done    []trouble
}

// trouble is a fault with its time.
type trouble struct {
	name         string
	began, ended time.Time
}

// next injects the next fault, and waits until the cluster is healthy. After the last fault, it returns
// torture.ErrEnough.
func (a *trial) next() error {
	if len(a.faults) == 0 {
		return torture.ErrEnough
	}
	fault := a.faults[0]
	a.faults = a.faults[1:]
	ctx, cancel := context.WithTimeout(context.Background(), faultTime)
	defer cancel()
	now := trouble{name: fault.Name, began: time.Now()}
	a.say("%s", fault.Name)
	err := fault.Do(ctx, a.cluster)
	if err == nil {
		err = a.cluster.Healthy(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", fault.Name, err)
	}
	now.ended = time.Now()
	a.done = append(a.done, now)
	a.say("%s: mended after %.0f s", fault.Name, now.ended.Sub(now.began).Seconds())
	return nil
}

// tell reports how long nothing was acknowledged in each fault.
func (a *trial) tell(t *testing.T, folder string) {
	events, err := torture.History(folder)
	if err != nil {
		t.Fatal(err)
	}
	var told []int64
	for _, e := range events {
		if e.Kind == history.Acknowledged {
			told = append(told, e.At)
		}
	}
	slices.Sort(told)
	for _, f := range a.done {
		longest, last := int64(0), f.began.UnixNano()
		for _, at := range told {
			if at > last && last < f.ended.UnixNano() {
				longest, last = max(longest, at-last), at
			}
		}
		t.Logf("| %s | %.1f |", f.name, time.Duration(longest).Seconds())
	}
}
