package operations

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// InitParams holds where the project is.
type InitParams struct {
	Folder string `json:"folder,omitempty" desc:"folder of the project" check:"min=1,max=4096" default:"." arg:"1"`
	Nested bool   `json:"nested,omitempty" desc:"create a database even if a folder above has one"`
}

// InitResult holds where the database is.
type InitResult struct {
	Database string `json:"database"`
	Created  bool   `json:"created"`
	Note     string `json:"note,omitempty"` // what does not work yet
}

var initCommand = commands.Define(vocabulary, "init", initProject).
	With(commands.Traits{HereOnly: true, MakesOne: true}).WithDatabaseAt(func(p InitParams) string {
	return commands.ProjectDatabase(p.Folder)
})

// initProject creates the database of a project. Every mailroom command run in that folder or below finds it.
func initProject(ctx context.Context, env commands.Env, p InitParams) (InitResult, error) {
	if env.Ledger.IsCentral() {
		return initOnServer(ctx, env)
	}
	folder := filepath.Dir(env.Ledger.Path())
	above := commands.NearestDatabase(filepath.Dir(filepath.Dir(folder)))
	if above != "" && !p.Nested && env.Ledger.NoneYet() {
		return InitResult{},
			orchestrator.Errorf(orchestrator.Conflict, "this folder already uses the database %s", above).
				WithHint("Agents in different databases cannot write to each other. To give this folder its own database, run `mailroom init --nested`")
	}
	created, err := env.Ledger.Store.Create()
	if err == nil {
		err = ledger.TakesWrites(ctx, env.Ledger)
	}
	if err != nil {
		return InitResult{}, err
	}
	ignore := filepath.Join(folder, ".gitignore")
	if filepath.Base(folder) != commands.ProjectFolder { // --db names another place
		return InitResult{Database: env.Ledger.Path(), Created: created}, nil
	}
	if _, err := os.Lstat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(ignore, []byte("*\n"), 0o600); err != nil {
			env.Log.Warn("cannot write the .gitignore file that keeps the folder out of version control", "error", err)
		}
	}
	return InitResult{Database: env.Ledger.Path(), Created: created}, nil
}

// initOnServer creates a database on a server, or updates the settings and rights of an existing one.
func initOnServer(ctx context.Context, env commands.Env) (InitResult, error) {
	r := InitResult{Database: env.Ledger.Path()}
	var err error
	if r.Created, err = env.Ledger.Store.Create(); err == nil {
		err = ledger.TakesWrites(ctx, env.Ledger)
	}
	if err != nil {
		return InitResult{}, err
	}
	var refused *orchestrator.Error
	if _, err := env.Ledger.Query(ctx, `SELECT 1`, store.Bound{Rows: 1}); errors.As(err, &refused) {
		r.Note = "`mailroom sql` does not work yet: " + refused.Message + ". " + refused.Hint
	}
	return r, nil
}

// Text writes the result for people.
func (r InitResult) Text(w *terminal.Text) {
	if r.Note != "" {
		defer w.Printf("%s\n", w.Paint(terminal.Yellow, r.Note))
	}
	if !r.Created {
		w.Printf("%s already exists.\n", r.Database)
		return
	}
	found := "Commands in this project use it automatically"
	if filepath.Base(filepath.Dir(r.Database)) != commands.ProjectFolder {
		found = "To use it, set --db or MAILROOM_DB"
	}
	w.Printf("Created %s. %s.\nNext: `mailroom connect HOST` or `mailroom agent add NAME`.\n", r.Database, found)
}
