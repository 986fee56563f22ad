package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"mailroom/orchestrator/store/postgres/postgrestest"
)

// TestOnAServer checks that the contestants of a case on a server do their work, and that the server's processor time
// is counted.
func TestOnAServer(t *testing.T) {
	for _, one := range []string{"mailroom", "pgmq-sql"} {
		t.Run(one, func(t *testing.T) {
			t.Setenv("TMPDIR", os.TempDir()) // the run changes it
			what, err := json.Marshal(Run{Dir: t.TempDir(), Scale: 0.01})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = runContestant(t.Context(), []string{"server-deliver", one, string(what)}, &out)
			if errors.Is(err, postgrestest.ErrMissing) && os.Getenv("CI") == "" {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			var m Measures
			if err := json.Unmarshal(out.Bytes(), &m); err != nil {
				t.Fatal(err)
			}
			if m["rate_per_s"] <= 0 || m["server_cpu_us"] <= 0 {
				t.Errorf("measured %v", m)
			}
		})
	}
}
