package program

import (
	"errors"
	"sync"
)

// ErrStopped is the cause with which the commands of an agent are ended that has approved to be shut down.
var ErrStopped = errors.New("the agent has stopped")

// registry holds the commands of this process that run, by their keys.
var registry struct {
	sync.Mutex
	running map[string]map[*Running]bool
}

// startRegistered starts a command. EndAll waits meanwhile, so that it misses nothing that runs.
func startRegistered(r *Running) error {
	registry.Lock()
	defer registry.Unlock()
	if err := r.cmd.Start(); err != nil || r.command.Key == "" {
		return err
	}
	if registry.running == nil {
		registry.running = map[string]map[*Running]bool{}
	}
	if registry.running[r.command.Key] == nil {
		registry.running[r.command.Key] = map[*Running]bool{}
	}
	registry.running[r.command.Key][r] = true
	return nil
}

func unregister(r *Running) {
	registry.Lock()
	defer registry.Unlock()
	delete(registry.running[r.command.Key], r)
	if len(registry.running[r.command.Key]) == 0 {
		delete(registry.running, r.command.Key)
	}
}

// KeyOf is the Command.Key of the commands of one agent in one database.
func KeyOf(database, agent string) string { return database + "\x00" + agent }

// EndAll ends, as Running.End does, every command of this process with a key, and returns them.
func EndAll(key string, cause error) (list []*Running) {
	registry.Lock()
	for r := range registry.running[key] {
		list = append(list, r)
	}
	registry.Unlock()
	for _, r := range list {
		r.End(cause)
	}
	return list
}
