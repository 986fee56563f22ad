package messages

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// maxGrouped is how many dead letters are looked at where their errors are compared, the newest.
const maxGrouped = 20_000

// reason selects the error of a dead letter, as much of it as is looked at, in characters: somebody may have written
// any text there by hand.
const (
	reason    = `substr(coalesce(error_message, ''), 1, 2000)`
	maxReason = 2000
)

// maxGroupSenders is how many senders a group names.
const maxGroupSenders = 5

// DeadLetterGroup is the dead letters of one recipient with errors that are alike: see DeadLetterFilter.Error.
type DeadLetterGroup struct {
	Recipient string `json:"recipient"`
	Known     bool   `json:"known"` // false: nobody has the recipient's name, so that none of them can be replayed
	Error     string `json:"error"` // of the newest
	// what errors that are alike have in common: the words of one, without those that may differ
	Kind      string   `json:"kind"`
	Messages  int64    `json:"messages"`
	Expired   int64    `json:"expired,omitempty"` // of those, what expired; the others failed
	Senders   []string `json:"senders"`           // of the newest, at most five
	Since     string   `json:"since"`             // when the first of them ended
	Latest    string   `json:"latest"`            // and the last
	MessageID string   `json:"message_id"`        // the newest
}

// DeadLetterGroups is what GroupDeadLetters returns.
type DeadLetterGroups struct {
	Total   int64             `json:"total"`   // dead letters in all
	Counted int64             `json:"counted"` // of those, the newest, which were grouped
	Groups  []DeadLetterGroup `json:"groups"`  // the largest first
	More    bool              `json:"more"`    // there are other groups
	// only the newest 20,000 dead letters were looked at, and there are more
	Cut bool `json:"cut,omitempty"`
}

// GroupDeadLetters puts the newest dead letters that the filter selects into groups, and returns the largest, as many
// as its limit allows. A filter with an error counts as total what it finds among the newest.
func GroupDeadLetters(ctx context.Context, l *ledger.Ledger, f DeadLetterFilter) (g DeadLetterGroups, err error) {
	like := Alike(f.Error)
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		args := f.args(conf)
		if g.Total, err = c.Number(`SELECT count(*)`+deadLetters, args...); err != nil {
			return err
		}
		g.Counted, g.Cut = min(g.Total, maxGrouped), g.Total > maxGrouped
		at := map[[2]string]int{}
		g.Groups = []DeadLetterGroup{}
		return c.Query(`SELECT message_id, sender, recipient, status, ended_at, `+reason+deadLetters+
			` ORDER BY seq DESC LIMIT +?5`, func(row store.Row) error {
			recipient, said := row.Text(2), row.Text(5)
			key := [2]string{recipient, Alike(said)}
			if f.Error != "" && key[1] != like {
				return nil
			}
			i, has := at[key]
			if !has {
				i = len(g.Groups)
				at[key] = i
				g.Groups = append(g.Groups,
					DeadLetterGroup{Recipient: recipient, Known: conf.Agents[recipient] != nil, Error: said,
						Kind: key[1], MessageID: row.Text(0), Since: row.Text(4)})
			}
			g.Groups[i].add(row.Text(1), orchestrator.Status(row.Text(3)), row.Text(4))
			return nil
		}, append(args, maxGrouped)...)
	})
	if f.Error != "" {
		g.Total = 0
		for i := range g.Groups {
			g.Total += g.Groups[i].Messages
		}
		g.Counted = g.Total
	}
	slices.SortStableFunc(g.Groups, func(a, b DeadLetterGroup) int { return cmp.Compare(b.Messages, a.Messages) })
	g.More = len(g.Groups) > f.Limit
	g.Groups = g.Groups[:min(len(g.Groups), f.Limit)]
	return g, err
}

// add counts one more dead letter.
func (g *DeadLetterGroup) add(sender string, status orchestrator.Status, ended string) {
	g.Messages++
	if status == orchestrator.Expired {
		g.Expired++
	}
	if len(g.Senders) < maxGroupSenders && !slices.Contains(g.Senders, sender) {
		g.Senders = append(g.Senders, sender)
	}
	g.Since, g.Latest = min(g.Since, ended), max(g.Latest, ended)
}

// likeError returns the dead letters that the filter selects by their error, too, fewer than its limit if their
// payloads have more than 4 MiB together.
func (f *DeadLetterFilter) likeError(c *store.Conn, args []any) (list DeadLetterList, err error) {
	var seqs []int64
	looked, like := 0, Alike(f.Error)
	err = c.Query(`SELECT seq, `+reason+deadLetters+` ORDER BY seq DESC LIMIT +?5`, func(row store.Row) error {
		if looked++; looked > maxGrouped {
			list.Cut = true
		} else if Alike(row.Text(1)) == like {
			if list.Total++; len(seqs) < f.Limit {
				seqs = append(seqs, row.Int(0))
			}
		}
		return nil
	}, append(args, maxGrouped+1)...)
	size := 0
	for _, seq := range seqs {
		if err != nil || size > ledger.MaxRead {
			break
		}
		var one []orchestrator.Message
		one, err = ledger.Messages(c, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE seq = ?`, seq)
		for i := range one {
			size += len(one[i].Payload)
		}
		list.DeadLetters = append(list.DeadLetters, one...)
	}
	return list, err
}

// Reason returns as much of an error as is looked at.
func Reason(said string) string {
	if text := []rune(said); len(text) > maxReason {
		return string(text[:maxReason])
	}
	return said
}

// Alike returns the reason that an error gives without its words that have four digits or more: times, ids, processes.
// Errors for which it returns the same are of one group. A number of fewer digits may be an exit status, or what a
// server answered.
func Alike(said string) string {
	words := strings.FieldsFunc(Reason(said), between)
	for i, word := range words {
		digits := 0
		for _, r := range word {
			if r >= '0' && r <= '9' {
				digits++
			}
		}
		if digits >= 4 {
			words[i] = "…"
		}
	}
	return strings.Join(words, " ")
}

// between reports whether a character stands between the words of an error.
func between(r rune) bool {
	switch r {
	case ' ', '\t', '\n', '"', '\'', '`', ',', ';', '(', ')', '[', ']', '{', '}', '=', '/':
		return true
	}
	return false
}
