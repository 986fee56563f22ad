package program

import (
	"errors"
	"sync"
)

// ErrStopped is the cause with which the commands of an agent are ended that has approved to be shut down.
var ErrStopped = errors.New("the agent has stopped")

// registry holds the commands of this process that run and have a key.
var registry = struct {
	sync.Mutex
	running map[*Running]bool
}{running: map[*Running]bool{}}

// startRegistered starts a command. EndAll waits meanwhile, so that it misses nothing that runs.
func startRegistered(r *Running) error {
	registry.Lock()
	defer registry.Unlock()
	err := r.cmd.Start()
	if err == nil && r.command.Key != "" {
		registry.running[r] = true
	}
	return err
}

func unregister(r *Running) {
	registry.Lock()
	defer registry.Unlock()
	delete(registry.running, r)
}

// KeyOf is the Command.Key of the commands of one agent in one database.
func KeyOf(database, agent string) string { return database + "\x00" + agent }

// EndAll ends, as Running.End does, every command of this process with a key, and returns them.
func EndAll(key string, cause error) (list []*Running) {
	registry.Lock()
	for r := range registry.running {
		if r.command.Key == key {
			list = append(list, r)
		}
	}
	registry.Unlock()
	for _, r := range list {
		r.End(cause)
	}
	return list
}
