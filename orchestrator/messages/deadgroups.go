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

// maxGrouped is how many dead letters GroupDeadLetters looks at, the newest.
const maxGrouped = 20_000

// maxGroupSenders is how many senders a group names.
const maxGroupSenders = 5

// DeadLetterGroup is the dead letters of one recipient with errors that are alike: see DeadLetterFilter.Error.
type DeadLetterGroup struct {
	Recipient string   `json:"recipient"`
	Known     bool     `json:"known"` // false: nobody has the recipient's name, so that none of them can be replayed
	Error     string   `json:"error"` // of the newest
	Kind      string   `json:"kind"`  // what errors that are alike have in common: the words of one, without those that may differ
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
}

// GroupDeadLetters puts the newest dead letters into groups, and returns the largest, as many as limit allows.
func GroupDeadLetters(ctx context.Context, l *ledger.Ledger, limit int) (g DeadLetterGroups, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		all := DeadLetterFilter{}
		args := all.args(conf)
		if g.Total, err = c.Number(`SELECT count(*)`+deadLetters, args...); err != nil {
			return err
		}
		g.Counted = min(g.Total, maxGrouped)
		at := map[[2]string]int{}
		g.Groups = []DeadLetterGroup{}
		return c.Query(`SELECT message_id, sender, recipient, status, ended_at, coalesce(error_message, '')`+deadLetters+` ORDER BY seq DESC LIMIT +?4`, func(row store.Row) error {
			recipient, reason := row.Text(2), row.Text(5)
			key := [2]string{recipient, alike(reason)}
			i, has := at[key]
			if !has {
				i = len(g.Groups)
				at[key] = i
				g.Groups = append(g.Groups, DeadLetterGroup{Recipient: recipient, Known: conf.Agents[recipient] != nil, Error: reason, Kind: key[1], MessageID: row.Text(0), Since: row.Text(4)})
			}
			g.Groups[i].add(row.Text(1), orchestrator.Status(row.Text(3)), row.Text(4))
			return nil
		}, append(args, maxGrouped)...)
	})
	slices.SortStableFunc(g.Groups, func(a, b DeadLetterGroup) int { return cmp.Compare(b.Messages, a.Messages) })
	g.More = len(g.Groups) > limit
	g.Groups = g.Groups[:min(len(g.Groups), limit)]
	return g, err
}

// add counts one more dead letter.
func (g *DeadLetterGroup) add(sender string, status orchestrator.Status, ended string) {
	g.Messages++
	if status == orchestrator.Lapsed {
		g.Expired++
	}
	if len(g.Senders) < maxGroupSenders && !slices.Contains(g.Senders, sender) {
		g.Senders = append(g.Senders, sender)
	}
	g.Since, g.Latest = min(g.Since, ended), max(g.Latest, ended)
}

// likeError returns the dead letters that the filter selects by their error, too, and how many there are without its limit.
func (f *DeadLetterFilter) likeError(c *store.Conn, args []any) (ms []orchestrator.Message, total int64, err error) {
	var seqs []int64
	like := alike(f.Error)
	err = c.Query(`SELECT seq, coalesce(error_message, '')`+deadLetters+` ORDER BY seq DESC`, func(row store.Row) error {
		if alike(row.Text(1)) == like {
			if total++; len(seqs) < f.Limit {
				seqs = append(seqs, row.Int(0))
			}
		}
		return nil
	}, args...)
	for _, seq := range seqs {
		if err != nil {
			break
		}
		var one []orchestrator.Message
		one, err = ledger.Messages(c, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE seq = ?`, seq)
		ms = append(ms, one...)
	}
	return ms, total, err
}

// alike returns an error without its words that have four digits or more: times, ids, processes. Errors for which it returns the same
// are of one group. A number of fewer digits may be an exit status, or what a server answered.
func alike(reason string) string {
	words := strings.FieldsFunc(reason, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`,;()[]{}=/", r) })
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
