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

// withPassword returns a configuration with the password that the password file has for its server and user. pgx
// uses the password of the first server for all servers. A password in the address or PGPASSWORD takes precedence.
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

// isGiven reports whether the address or PGPASSWORD contains a password.
func isGiven(address *url.URL) bool {
	_, said := address.User.Password()
	return said || address.Query().Has("password") || os.Getenv("PGPASSWORD") != ""
}

// Enters logs in like a program that gets the address without its password and without PGPASSWORD, as the commands
// of agents do. Such a program can use the password file. Enters returns the server's refusal. It returns nil if
// there is none, or if the server cannot be reached.
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
