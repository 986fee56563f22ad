//go:build hosts

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/store/postgres"
)

// harms are the possible problems of a desk's database, in a file and on a server. Each returns the function that
// repairs it.
var harms = map[string]func(k *desk) (repair func()){
	"missing": func(k *desk) func() {
		if postgres.IsAddress(k.db) {
			return enginetest.Hide(k.t, k.db)
		}
		k.move(k.db, k.db+".away")
		return func() {
			if _, err := os.Stat(k.db); err == nil {
				k.t.Error("a hook has made a database")
			}
			k.move(k.db+".away", k.db)
		}
	},
	"busy": func(k *desk) func() { return enginetest.Jam(k.t, k.db) },
	"read-only": func(k *desk) func() {
		if postgres.IsAddress(k.db) {
			return enginetest.Harm(k.t, k.db, readOnly("SET default_transaction_read_only = on"),
				"SET default_transaction_read_only = off; "+readOnly("RESET default_transaction_read_only"))
		}
		folder := filepath.Dir(k.db)
		if os.Geteuid() == 0 {
			return k.mountReadOnly(folder)
		}
		k.permit(map[string]fs.FileMode{k.db: 0o400, folder: 0o500})
		writable := map[string]fs.FileMode{folder: 0o700, k.db: 0o600}
		k.t.Cleanup(func() { k.permit(writable) })
		return func() { k.permit(writable) }
	},
	"not trusted": func(k *desk) func() {
		k.run("trust", "--remove")
		return func() { k.run("trust") }
	},
}

// readOnly returns the statement that changes a database's default.
func readOnly(change string) string {
	return "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' " + change + "'; END $$"
}

// mountReadOnly prevents all writes to a folder, even by the superuser, for whom permissions have no effect.
func (k *desk) mountReadOnly(folder string) (repair func()) {
	k.t.Helper()
	if err := unix.Mount(folder, folder, "", unix.MS_BIND, ""); err != nil {
		k.t.Fatalf("the superuser ignores permissions, and %s cannot be mounted read-only: %v; run the tests as another user", folder, err)
	}
	k.t.Cleanup(func() { unix.Unmount(folder, unix.MNT_DETACH) })
	if err := unix.Mount("", folder, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		k.t.Fatal(err)
	}
	return func() {
		if err := unix.Mount("", folder, "", unix.MS_BIND|unix.MS_REMOUNT, ""); err != nil {
			k.t.Fatal(err)
		}
	}
}

// permit sets the permissions of files.
func (k *desk) permit(modes map[string]fs.FileMode) {
	k.t.Helper()
	for path, mode := range modes {
		if err := os.Chmod(path, mode); err != nil {
			k.t.Fatal(err)
		}
	}
}

func (k *desk) move(from, to string) {
	k.t.Helper()
	if err := os.Rename(from, to); err != nil {
		k.t.Fatal(err)
	}
}

// sendMany sends n messages from alice to bob, and returns their IDs.
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
