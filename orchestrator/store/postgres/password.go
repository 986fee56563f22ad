package postgres

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgpassfile"
	"github.com/jackc/pgx/v5/pgconn"
)

// withPassword returns a configuration with the password that the file of passwords has for its server and user. pgx takes that of the first
// server for all. What the address or PGPASSWORD says goes first.
func withPassword(config *pgconn.Config, dsn string) *pgconn.Config {
	address, err := url.Parse(dsn)
	if err != nil {
		return config
	}
	if _, said := address.User.Password(); config.Password != "" && (said || address.Query().Has("password") || os.Getenv("PGPASSWORD") != "") {
		return config
	}
	home, _ := os.UserHomeDir()
	file, err := pgpassfile.ReadPassfile(cmp.Or(address.Query().Get("passfile"), os.Getenv("PGPASSFILE"), filepath.Join(home, ".pgpass")))
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
