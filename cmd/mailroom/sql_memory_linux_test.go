package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator/store/postgres"
)

// peak returns the peak memory of a process in MB.
func peak(t *testing.T, pid int) (mb int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	if _, err := fmt.Sscan(string(after), &mb); err != nil {
		t.Fatal(err)
	}
	return mb >> 10
}

// watchesRaces reports whether this program was built with the race detector, which takes several times the memory.
func watchesRaces() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings,
		func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
}

// times returns a list that repeats one expression n times.
func times(n int, form string) string {
	return strings.TrimSuffix(strings.Repeat(form+", ", n), ", ")
}

// TestMemoryOfQueries runs queries on a daemon that would take gigabytes: in one row, in many small values, or in a
// sort. It checks that the daemon refuses them or returns part of the result, and that its memory stays bounded.
func TestMemoryOfQueries(t *testing.T) {
	t.Parallel()
	many := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT %s FROM n"
	for name, c := range map[string]struct {
		query, server string // server is the query for a server, if it differs
		status        int
		says          string
		most          int // limit of memory in MB
	}{
		"a row of long values": {"SELECT " + times(24, "hex(zeroblob(16000000))"),
			"SELECT " + times(24, "repeat('x', 32000000)"), 400, "bytes", 200},
		"the longest that there are": {"SELECT " + times(24, "hex(zeroblob(700000))"),
			"SELECT " + times(24, "repeat('x', 1400000)"), 400, "a row of the result is larger than 33554432 bytes",
			350},
		"arguments of a function": {"SELECT length(printf('x', " + times(90, "hex(zeroblob(16000000))") + "))",
			"SELECT 1", 400, "the query produces a value that is larger than", 200},
		"what grows as JSON": {"SELECT replace(hex(zeroblob(3000000)), '0', char(1))",
			"SELECT repeat(chr(1), 6000000)", 400, "a row of the result is larger than", 250},
		"many small values": {fmt.Sprintf(many, 100_000, times(500, "i")), "", 200, `"truncated":true`, 250},
		"what is sorted": {fmt.Sprintf(many, 400, "i") +
			" ORDER BY CAST(zeroblob(1000000) AS TEXT) || random()", "SELECT 1", 200, `"rows":[{"i":`, 150},
		"what is grouped in 30 places": {"WITH RECURSIVE c(n) AS MATERIALIZED (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1000) SELECT " +
			times(30, "(SELECT count(*) FROM (SELECT 1 FROM c GROUP BY hex(zeroblob(5000)) || n))"), "SELECT 1", 200,
			`:1000`, 250},
		"what is grouped in 40 places": {"SELECT " +
			times(40, "(SELECT count(*) FROM (SELECT 1 FROM agents GROUP BY hex(name)))"), "SELECT 1", 400,
			"in 40 places, but at most 32", 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, "boss")
			token := o.run("agent", "token", "boss", "--admin")["token"].(string)
			s := o.serve()
			query := c.query
			if postgres.IsAddress(o.db) && c.server != "" {
				if query = c.server; query == "SELECT 1" {
					t.Skip("the server sorts and calls, and bounds that itself")
				}
			}
			params, err := json.Marshal(map[string]any{"query": query, "limit": 100_000})
			if err != nil {
				t.Fatal(err)
			}
			res, err := s.post(token, "sql", string(params))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			answer, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != c.status || !bytes.Contains(answer, []byte(c.says)) ||
				!json.Valid(answer) {
				t.Errorf("%d, %v: %.300s; want %d, %s", res.StatusCode, err, answer, c.status, c.says)
			}
			mb := peak(t, s.cmd.Process.Pid)
			t.Logf("%d MB", mb)
			if mb > c.most && !watchesRaces() {
				t.Errorf("the daemon has had %d MB; want at most %d", mb, c.most)
			}
		})
	}
}
