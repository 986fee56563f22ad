package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/letter"
	"mailroom/orchestrator/messages"
)

// removed acknowledges messages delivered into a folder whose files its owner has removed. The files must have been
// missing for a while in which the folder stayed. Messages that were delivered into a folder that is gone, or was
// replaced by another, may have been lost unread with it; that is reported once for each such folder. in is nil if
// the folder does not exist.
func (p *pass) removed(ctx context.Context, in *os.Root, folder string) error {
	if !p.isInbox(folder) || p.now[""].problem != "" {
		return nil
	}
	var here letter.Identity
	if in != nil {
		var err error
		if here, err = identify(in); err != nil {
			return err
		}
	}
	lost, last := 0, ""
	missed, at := map[string]time.Time{}, time.Now()
	err := letters.EachPlaced(ctx, p.engine.Ledger, folder, p.target, func(page []letters.Placed) error {
		var gone []letters.Placed
		for _, m := range page {
			there, name, err := parseNote(m.ID, m.Mark)
			switch {
			case err != nil: // written by hand, so it shows nothing
			case in == nil || !there.Same(here):
				lost, last = lost+1, there.String()
			case p.now[name].print != "": // the file was there a moment ago
			default:
				if _, err := in.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if since, before := p.gone[folder][m.ID]; !before {
					missed[m.ID] = at
				} else if at.Sub(since) < settled {
					missed[m.ID] = since
				} else {
					gone = append(gone, m)
				}
			}
		}
		if len(gone) == 0 {
			return nil
		}
		n, err := letters.AcknowledgeRemoved(ctx, p.engine.Ledger, gone)
		p.count(Counts{Acknowledged: n})
		return err
	})
	if err != nil {
		return err
	}
	if delete(p.gone, folder); len(missed) > 0 {
		p.gone[folder] = missed
	}
	if lost == 0 {
		return nil
	}
	p.now[""] = sight{print: last, problem: fmt.Sprintf(
		"the folder with %d delivered messages was removed. Mailroom cannot determine whether %s handled them."+
			" To see the messages, run `mailroom ralph inbox --agent %[2]s`. To mark a message as handled, run `mailroom ralph ack ID`", lost, folder), settled: true}
	return p.tell(ctx, folder, "")
}

// isDelivered reports whether a file is an unchanged delivery. Not every delivery could be imported: a row written
// by hand may have any ID, and a payload may exceed the limit because of its indentation.
func (p *pass) isDelivered(ctx context.Context, folder string, f file, text []byte) (found bool, err error) {
	err = letters.EachPlaced(ctx, p.engine.Ledger, folder, p.target, func(page []letters.Placed) error {
		for _, m := range page {
			if _, name, err := parseNote(m.ID, m.Mark); err != nil || name != f.name || found {
				continue
			}
			rows, err := messages.Find(ctx, p.engine.Ledger, m.ID)
			if err != nil {
				return err
			}
			ours, err := letter.Of(&rows[0]).Encode()
			found = err == nil && (bytes.Equal(ours, text) || text == nil && int64(len(ours)) == f.info.Size())
		}
		return nil
	})
	return found, err
}
