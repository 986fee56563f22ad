package overview

import (
	"bytes"
	"os"

	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/store"
)

// connections looks whether the agent hosts that were connected still are, and whether their hooks have ever been heard of.
func (d *doctor) connections(c *store.Conn) error {
	for _, kept := range hosts.Connections(d.ledger.Path()) {
		about, again := kept.Program+" as "+kept.Agent, "`mailroom connect "+kept.Program+" --as "+kept.Agent
		if kept.Folder == "" {
			again += " --user`"
		} else {
			again += " --folder " + orchestrator.ShellWord(kept.Folder) + "`"
		}
		text, err := os.ReadFile(kept.File)
		_, gone := os.Stat(kept.Command)
		switch {
		case kept.Moved():
			d.add(about, "problem", "its folder is gone: "+kept.Folder, "if the project was moved, `mailroom connect "+kept.Program+" --as "+kept.Agent+"` in its new folder")
		case err != nil:
			d.add(about, "problem", "its configuration cannot be read: "+err.Error(), again)
		case gone != nil:
			d.add(about, "problem", "its configuration "+kept.File+" names a program that is not there: "+kept.Command, again)
		case !bytes.Contains(text, []byte(d.ledger.Path())):
			d.add(about, "problem", "its configuration "+kept.File+" does not name this database any more", again)
		default:
			seen, found, err := c.Text(`SELECT max(seen_at) FROM host_sessions WHERE (agent = ?1 OR ?1 = ?2) AND program = ?3`,
				kept.Agent, orchestrator.Auto, kept.Program)
			if err != nil {
				return err
			}
			if !found || seen == "" {
				d.add(about, "note", kept.File+": no hook has been called yet", "start it anew there, and trust what it asks about")
			} else {
				d.add(about, "ok", kept.File+": its last hook was called at "+seen, "")
			}
		}
	}
	return nil
}
