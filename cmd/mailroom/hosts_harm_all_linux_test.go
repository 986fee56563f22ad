//go:build hosts

package main

import (
	"database/sql"
	"fmt"
	"os"
)

// harms are what can be wrong with the database of a desk. Each returns what mends it.
var harms = map[string]func(k *desk) (repair func()){
	"missing": func(k *desk) func() {
		k.move(k.db, k.db+".away")
		return func() {
			if _, err := os.Stat(k.db); err == nil {
				k.t.Error("a hook has made a database")
			}
		}
	},
	"busy": func(k *desk) func() {
		db, err := sql.Open("sqlite3", "file:"+k.db+"?_txlock=immediate&_busy_timeout=20000")
		if err != nil {
			k.t.Fatal(err)
		}
		k.t.Cleanup(func() { db.Close() })
		tx, err := db.Begin()
		if err != nil {
			k.t.Fatal(err)
		}
		return func() {
			if err := tx.Rollback(); err != nil {
				k.t.Error(err)
			}
		}
	},
	"not trusted": func(k *desk) func() {
		k.run("trust", "--remove")
		return func() { k.run("trust") }
	},
}

func (k *desk) move(from, to string) {
	k.t.Helper()
	if err := os.Rename(from, to); err != nil {
		k.t.Fatal(err)
	}
}

// sendMany has alice write many messages to bob, and returns their ids.
func (k *desk) sendMany(n int) (ids []string) {
	k.t.Helper()
	s, err := k.startSender()
	if err != nil {
		k.t.Fatal(err)
	}
	for i := range n {
		err := s.say("alice", "bob", fmt.Sprintf(`"Message %d."`, i))
		if err != nil {
			k.t.Fatal(err)
		}
		id, ok, err := s.heard()
		if !ok || err != nil {
			k.t.Fatal(ok, err)
		}
		ids = append(ids, id)
	}
	s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		k.t.Fatal(err)
	}
	return ids
}
