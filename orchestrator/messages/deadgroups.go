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

// maxGrouped is the number of dead letters, the newest ones, whose errors are compared.
const maxGrouped = 20_000

// reason is the SQL expression for the first maxReason characters of a dead letter's error. The limit exists because
// somebody may have written any text by hand.
const (
	reason    = `substr(coalesce(error_message, ''), 1, 2000)`
	maxReason = 2000
)

// maxGroupSenders is the maximum number of senders listed in a group.
const maxGroupSenders = 5

// DeadLetterGroup describes the dead letters of one recipient with similar errors: see DeadLetterFilter.Error.
type DeadLetterGroup struct {
	Recipient string `json:"recipient"`
	Known     bool   `json:"known"` // false: the recipient does not exist, so none of the letters can be replayed
	Error     string `json:"error"` // error of the newest letter
	// the words that similar errors have in common, without those that may differ
	Kind      string   `json:"kind"`
	Messages  int64    `json:"messages"`
	Expired   int64    `json:"expired,omitempty"` // number of letters that expired; the others failed
	Senders   []string `json:"senders"`           // senders of the newest letters, at most five
	Since     string   `json:"since"`             // when the first letter ended
	Latest    string   `json:"latest"`            // when the last letter ended
	MessageID string   `json:"message_id"`        // id of the newest letter
}

// DeadLetterGroups is the result of GroupDeadLetters.
type DeadLetterGroups struct {
	Total   int64             `json:"total"`   // number of dead letters
	Counted int64             `json:"counted"` // number of dead letters, the newest, that were grouped
	Groups  []DeadLetterGroup `json:"groups"`  // largest first
	More    bool              `json:"more"`    // there are more groups
	// only the newest 20,000 dead letters were examined, and there are more
	Cut bool `json:"cut,omitempty"`
}

// GroupDeadLetters groups the newest dead letters that the filter selects, and returns the largest groups, up to the
// filter's limit. If the filter has an error, the total covers only the newest letters.
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

// add adds a dead letter to the group.
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

// likeError returns the dead letters that the filter selects, including by their error. It returns fewer than the
// filter's limit if their payloads exceed 4 MiB together.
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

// Reason returns the first 2000 characters of an error, the part that is compared.
func Reason(said string) string {
	if text := []rune(said); len(text) > maxReason {
		return string(text[:maxReason])
	}
	return said
}

// Alike returns the beginning of an error without the words that contain four or more digits, such as times, ids and
// process numbers. Errors with the same result belong to the same group. Shorter numbers are kept, because they may
// be an exit status or the response of a server.
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

// between reports whether a character separates the words of an error.
func between(r rune) bool {
	switch r {
	case ' ', '\t', '\n', '"', '\'', '`', ',', ';', '(', ')', '[', ']', '{', '}', '=', '/':
		return true
	}
	return false
}
