-- The processes that take leases, and when each was last heard of, by the server's clock: see pulse.go. Rows of processes that have
-- ended are removed in time; a process without a row was not heard of.
CREATE TABLE pulse (
    key     bigint PRIMARY KEY,
    seen_at timestamptz NOT NULL
);
