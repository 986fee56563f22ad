package ledger

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
)

// These stand before the names of two agents, in order and with a space between them, in the key of a row of settings. By
// the first, what they write to each other is held back; by the second, they may go on, however much it is. Its value is
// until when, since when, and who did that.
const (
	holdPrefix = "hold."
	goOnPrefix = "go_on."
)

// MaxHold is how long what two agents write to each other is held back at most, and how long they may go on.
const MaxHold = time.Hour

// Hold holds back what two agents write to each other, or lets them go on, until a time.
type Hold struct {
	A, B         string // in the order of their names
	Until, Since string
	By           string // who did that, in words
}

// String says until when and by whom messages are held back.
func (h *Hold) String() string { return "held until " + h.Until + " by " + h.By }

// pair returns two names in order.
func pair(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// holdsIn reads the rows of settings with a prefix that StoreHold or StoreGoOn has written. One whose time lies too far
// ahead counts for nothing: somebody wrote it by hand, or a clock was set back.
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

// HoldOf returns the hold on what two agents write to each other at a time, in the form of stamp; nil if there is none.
func (conf *Config) HoldOf(a, b, now string) *Hold {
	return at(conf.holds, a, b, now)
}

// MayGoOn reports whether a person has let two agents go on, at a time in the form of stamp.
func (conf *Config) MayGoOn(a, b, now string) bool { return at(conf.goOn, a, b, now) != nil }

func at(holds map[[2]string]Hold, a, b, now string) *Hold {
	hold, stored := holds[pair(a, b)]
	if !stored || hold.Until <= now || hold.Since > now {
		return nil
	}
	return &hold
}

// StoredHold returns the hold on what two agents write to each other, also one that has ended and was not removed, or that
// a clock which was set back has not reached; nil if there is none.
func (conf *Config) StoredHold(a, b string) *Hold {
	if hold, stored := conf.holds[pair(a, b)]; stored {
		return &hold
	}
	return nil
}

// Holds returns the holds that there are at a time, the oldest first.
func (conf *Config) Holds(now string) []Hold { return listAt(conf.holds, now) }

// GoOns returns the pairs that may go on at a time, the oldest first.
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

// StoreHold has messages held back.
func (t *Tx) StoreHold(h *Hold) error { return t.storeHold(holdPrefix, h) }

// StoreGoOn lets two agents go on, and removes the hold on what they write to each other.
func (t *Tx) StoreGoOn(h *Hold) error { return t.storeHold(goOnPrefix, h) }

// storeHold writes one of the rows of two agents, in place of the other, and removes those of others that are over.
func (t *Tx) storeHold(prefix string, h *Hold) error {
	if err := t.DropHolds(func(old *Hold) bool { return old.Until <= t.ClockText || old.A == h.A && old.B == h.B }); err != nil {
		return err
	}
	if err := t.StoreSetting(prefix+h.A+" "+h.B, h.Until+" "+h.Since+" "+h.By); err != nil {
		return err
	}
	return t.ConfigChanged()
}

// DropHolds removes those of the rows that StoreHold and StoreGoOn have written. Call ConfigChanged afterwards.
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
