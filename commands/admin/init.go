package admin

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// InitParams say where the project is.
type InitParams struct {
	Folder string `json:"folder,omitempty" desc:"folder of the project" check:"min=1,max=4096" default:"." arg:"1"`
	Nested bool   `json:"nested,omitempty" desc:"also below a folder that has a database"`
}

// InitResult says where the database is now.
type InitResult struct {
	Database string `json:"database"`
	Created  bool   `json:"created"`
}

var initCommand = commands.Define(vocabulary, "init", initProject).With(commands.Traits{HereOnly: true, MakesOne: true}).WithDatabaseAt(func(p InitParams) string {
	return filepath.Join(p.Folder, ".mailroom", "mailroom.db")
})

// initProject makes the database of a project, which every mailroom command below that folder finds by itself.
func initProject(ctx context.Context, env commands.Env, p InitParams) (InitResult, error) {
	if above := databaseAbove(env.Ledger.Path()); above != "" && !p.Nested && env.Ledger.NoneYet() {
		return InitResult{}, orchestrator.Errorf(orchestrator.Conflict, "this folder uses the database %s already", above).
			WithHint("Agents in different databases cannot write to each other. If this folder is to have its own: `mailroom init --nested`")
	}
	created, err := env.Ledger.Create(ctx)
	if err != nil {
		return InitResult{}, err
	}
	folder := filepath.Dir(env.Ledger.Path())
	ignore := filepath.Join(folder, ".gitignore")
	if filepath.Base(folder) != ".mailroom" { // --db names another place
		return InitResult{Database: env.Ledger.Path(), Created: created}, nil
	}
	if _, err := os.Lstat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(ignore, []byte("*\n"), 0o600); err != nil {
			env.Log.Warn("the folder could not be kept out of version control", "error", err)
		}
	}
	return InitResult{Database: env.Ledger.Path(), Created: created}, nil
}

// databaseAbove returns the nearest database of a project in the folders above that of another; "" if there is none.
func databaseAbove(path string) string {
	for folder := filepath.Dir(filepath.Dir(filepath.Dir(path))); ; folder = filepath.Dir(folder) {
		above := filepath.Join(folder, ".mailroom", "mailroom.db")
		if info, err := os.Stat(above); err == nil && info.Mode().IsRegular() && above != path {
			return above
		}
		if folder == filepath.Dir(folder) {
			return ""
		}
	}
}

// Text says it in a sentence.
func (r InitResult) Text(w *commands.Text) {
	if r.Created {
		w.Printf("Made %s. Commands run in that project find it by themselves.\nNext: `mailroom connect HOST`, or `mailroom agent add NAME`.\n", r.Database)
	} else {
		w.Printf("%s is there already.\n", r.Database)
	}
}
