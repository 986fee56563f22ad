package ledger

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
)

// Prefixes of settings that concern two agents. The key continues with the two names, sorted and separated by a
// space. A hold setting delays the messages that the two agents send to each other; a go_on setting lets them
// continue however much they send. The value holds the end time, the start time, and who made the decision.
const (
	holdPrefix = "hold."
	goOnPrefix = "go_on."
)

// MaxHold is the longest time for which the messages between two agents may be held back, or for which the two may
// continue.
const MaxHold = time.Hour

// Hold delays the messages between two agents until a given time, or allows the agents to continue until then.
type Hold struct {
	A, B         string // sorted by name
	Until, Since string
	By           string // who made the decision, in words
}

// String returns a phrase that gives the end of the hold and who made it.
func (h *Hold) String() string { return "held until " + h.Until + " by " + h.By }

// pair returns two names in sorted order.
func pair(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// holdsIn returns the holds that StoreHold or StoreGoOn stored under a prefix. It skips a hold that lasts longer than
// MaxHold: somebody wrote it by hand, or a clock was set back.
func holdsIn(stored map[string]string, prefix string) map[[2]string]Hold {
	var holds map[[2]string]Hold
	for key, value := range stored {
		names, is := strings.CutPrefix(key, prefix)
		if !is {
			continue
		}
		a, b, _ := strings.Cut(names, " ")
		until, rest, _ := strings.Cut(value, " ")
		since, by, _ := strings.Cut(rest, " ")
		if orchestrator.ParseStamp(until).Sub(orchestrator.ParseStamp(since)) > MaxHold {
			continue
		}
		if holds == nil {
			holds = map[[2]string]Hold{}
		}
		holds[pair(a, b)] = Hold{A: min(a, b), B: max(a, b), Until: until, Since: since, By: by}
	}
	return holds
}

// HoldOf returns the hold that delays messages between two agents at the time now, or nil if there is none. now has
// the form of orchestrator.Stamp.
func (conf *Config) HoldOf(a, b, now string) *Hold {
	return at(conf.holds, a, b, now)
}

// MayGoOn reports whether a person has allowed two agents to continue at the time now, which has the form of
// orchestrator.Stamp.
func (conf *Config) MayGoOn(a, b, now string) bool { return at(conf.goOn, a, b, now) != nil }

func at(holds map[[2]string]Hold, a, b, now string) *Hold {
	hold, stored := holds[pair(a, b)]
	if !stored || hold.Until <= now || hold.Since > now {
		return nil
	}
	return &hold
}

// StoredHold returns the stored hold on the messages between two agents, or nil if there is none. The hold may have
// ended without being removed, or may not have begun because a clock was set back.
func (conf *Config) StoredHold(a, b string) *Hold {
	if hold, stored := conf.holds[pair(a, b)]; stored {
		return &hold
	}
	return nil
}

// Holds returns the holds in force at the time now, the oldest first.
func (conf *Config) Holds(now string) []Hold { return listAt(conf.holds, now) }

// GoOns returns the pairs of agents that may continue at the time now, the oldest first.
func (conf *Config) GoOns(now string) []Hold { return listAt(conf.goOn, now) }

func listAt(holds map[[2]string]Hold, now string) (list []Hold) {
	for _, hold := range holds {
		if at(holds, hold.A, hold.B, now) != nil {
			list = append(list, hold)
		}
	}
	slices.SortFunc(list, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
	})
	return list
}

// StoreHold stores a hold that delays the messages between two agents.
func (t *Tx) StoreHold(h *Hold) error { return t.storeHold(holdPrefix, h) }

// StoreGoOn allows two agents to continue, and removes the hold on the messages between them.
func (t *Tx) StoreGoOn(h *Hold) error { return t.storeHold(goOnPrefix, h) }

// storeHold stores a setting for two agents in place of their previous one. It also removes expired settings of other
// pairs.
func (t *Tx) storeHold(prefix string, h *Hold) error {
	if err := t.DropHolds(func(old *Hold) bool { return old.Until <= t.ClockText || old.A == h.A && old.B == h.B }); err != nil {
		return err
	}
	if err := t.StoreSetting(prefix+h.A+" "+h.B, h.Until+" "+h.Since+" "+h.By); err != nil {
		return err
	}
	return t.ConfigChanged()
}

// DropHolds removes the settings of StoreHold and StoreGoOn for which the function which returns true. Call
// ConfigChanged afterwards.
func (t *Tx) DropHolds(which func(*Hold) bool) error {
	conf := t.Config()
	for prefix, holds := range map[string]map[[2]string]Hold{holdPrefix: conf.holds, goOnPrefix: conf.goOn} {
		for names, old := range holds {
			if !which(&old) {
				continue
			}
			if err := t.Run(`DELETE FROM settings WHERE key = ?`, prefix+names[0]+" "+names[1]); err != nil {
				return err
			}
		}
	}
	return nil
}
