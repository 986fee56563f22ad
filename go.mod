module mailroom

go 1.26.0

require (
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/mattn/go-sqlite3 v1.14.52 // indirect
	github.com/oklog/ulid/v2 v2.1.2 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
