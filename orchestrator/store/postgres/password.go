package postgres

import (
	"cmp"
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgpassfile"
	"github.com/jackc/pgx/v5/pgconn"
)

// withPassword returns a configuration with the password that the file of passwords has for its server and user. pgx
// takes that of the first server for all. What the address or PGPASSWORD says goes first.
func withPassword(config *pgconn.Config, dsn string) *pgconn.Config {
	address, err := url.Parse(dsn)
	if err != nil || config.Password != "" && isGiven(address) {
		return config
	}
	home, _ := os.UserHomeDir()
	file, err := pgpassfile.ReadPassfile(cmp.Or(address.Query().Get("passfile"), os.Getenv("PGPASSFILE"),
		filepath.Join(home, ".pgpass")))
	if err != nil {
		return config
	}
	host := config.Host
	if strings.HasPrefix(host, "/") {
		host = "localhost"
	}
	found := config.Copy()
	found.Password = file.FindPassword(host, strconv.Itoa(int(config.Port)), config.Database, config.User)
	return found
}

// isGiven reports whether the password is from an address or from PGPASSWORD.
func isGiven(address *url.URL) bool {
	_, said := address.User.Password()
	return said || address.Query().Has("password") || os.Getenv("PGPASSWORD") != ""
}

// Enters logs in as a program does that gets the address without its password, and no PGPASSWORD, as the commands of
// agents do. Such a program has the file of passwords. It returns the server's refusal, nil if there is none or the
// server cannot be had.
func (s *Store) Enters(ctx context.Context) error {
	address, err := url.Parse(s.dsn)
	if err != nil || !isGiven(address) {
		return err
	}
	config := s.config.Copy()
	config.Password = ""
	c, _, err := s.connect(ctx, config)
	switch {
	case err == nil:
		c.Close()
	case isKeptOut(err):
		return s.Explain(err)
	}
	return nil
}
