package main

import (
	"bytes"
	"sync"
	"testing"
)

// TestOneKeyInManyProcesses checks that fifty processes that send one idempotency_key at the same time create one
// message, and all get it in their answer, and that the key with another message is a conflict.
func TestOneKeyInManyProcesses(t *testing.T) {
	t.Parallel()
	const processes = 50
	for name, target := range map[string]string{"agent": "b", "group": "builders"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, "a", "b", "c --group builders", "d --group builders")
			send := func(message string) ([]byte, error) {
				return o.command("relay", "send_message", "--as", "a", "--message", message, "--target", target,
					"--message-type", "DIRECTIVE",
					"--idempotency-key", "f47ac10b-58cc-4372-a567-0e02b2c3d479").Output()
			}
			answers := make([][]byte, processes)
			begin := make(chan struct{})
			var all sync.WaitGroup
			for i := range processes {
				all.Go(func() {
					<-begin
					var err error
					if answers[i], err = send("go"); err != nil {
						t.Errorf("process %d: %v: %s", i, err, answers[i])
					}
				})
			}
			close(begin)
			all.Wait()
			first := 0
			plain := func(answer []byte) []byte { return bytes.Replace(answer, []byte(`,"idempotent":true`), nil, 1) }
			for i, answer := range answers {
				if !bytes.Equal(plain(answer), plain(answers[0])) || len(answer) == 0 {
					t.Errorf("process %d got\n%sand the first one\n%s", i, answer, answers[0])
				}
				if !bytes.Contains(answer, []byte(`"idempotent":true`)) {
					first++
				}
			}
			if first != 1 {
				t.Errorf("%d processes say that they were the first", first)
			}
			want := map[string]string{"b": "1|1", "builders": "2|1"}[target]
			if got := o.rows(`SELECT count(*), count(DISTINCT coalesce(multicast_id, message_id))
				FROM agent_message`)[0]; got != want {
				t.Errorf("messages in the table, and sends: %s; want %s", got, want)
			}
			if got := o.rows(`SELECT count(*) FROM idempotency`)[0]; got != "1" {
				t.Errorf("%s keys are kept", got)
			}
			if answer, err := send("stop"); err == nil || !bytes.Contains(answer, []byte(`"error":"conflict"`)) {
				t.Errorf("the key with another message: %v, %s", err, answer)
			}
			o.checkHistory()
		})
	}
}
