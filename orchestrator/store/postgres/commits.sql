-- The last transaction that each process has committed, by which it finds out what has become of one whose COMMIT was not answered:
-- see fate.go. Rows of processes that have ended are removed in time.
CREATE TABLE commits (
    process text COLLATE "C" PRIMARY KEY,
    n       bigint NOT NULL,
    at      timestamptz NOT NULL -- of one of the last, to within a few minutes
) WITH (fillfactor = 50);
CREATE INDEX commits_at ON commits (at);
