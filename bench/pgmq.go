package main

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgmqSchema has the effects of pgmq's functions create, send, read and archive, according to pgmq's documentation
// and version 1.6. It uses the same tables, indexes and kinds of statements: PL/pgSQL functions that compose the text
// of a statement and execute it. Debian does not include the extension itself.
const pgmqSchema = `
CREATE SCHEMA pgmq;
CREATE TABLE pgmq.q_letters (
    msg_id      bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    read_ct     integer NOT NULL DEFAULT 0,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    vt          timestamptz NOT NULL,
    message     jsonb,
    headers     jsonb
);
CREATE INDEX ON pgmq.q_letters (vt);
CREATE TABLE pgmq.a_letters (
    msg_id      bigint PRIMARY KEY,
    read_ct     integer NOT NULL DEFAULT 0,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    archived_at timestamptz NOT NULL DEFAULT now(),
    vt          timestamptz NOT NULL,
    message     jsonb,
    headers     jsonb
);
CREATE INDEX ON pgmq.a_letters (archived_at);

CREATE FUNCTION pgmq.table_of(queue text, prefix text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF queue ~ '[$;'']|--' THEN
        RAISE EXCEPTION 'not a name of a queue: %', queue;
    END IF;
    RETURN lower(prefix || '_' || queue);
END $$;

CREATE FUNCTION pgmq.send(queue text, msg jsonb, headers jsonb,
	due timestamptz) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('INSERT INTO pgmq.%I (vt, message, headers) VALUES ($1, $2, $3) RETURNING msg_id',
        pgmq.table_of(queue, 'q')) USING due, msg, headers;
END $$;

CREATE FUNCTION pgmq.send(queue text, msg jsonb) RETURNS SETOF bigint LANGUAGE sql AS $$
    SELECT * FROM pgmq.send(queue, msg, NULL, clock_timestamp())
$$;

CREATE FUNCTION pgmq.read(queue text, hidden integer, most integer)
RETURNS TABLE (msg_id bigint, read_ct integer, enqueued_at timestamptz, vt timestamptz, message jsonb,
	headers jsonb) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('
        WITH due AS (
            SELECT q.msg_id FROM pgmq.%1$I q WHERE q.vt <= clock_timestamp() ORDER BY q.msg_id LIMIT $1 FOR UPDATE SKIP LOCKED)
        UPDATE pgmq.%1$I m SET vt = clock_timestamp() + %2$L, read_ct = m.read_ct + 1
        FROM due WHERE m.msg_id = due.msg_id
        RETURNING m.msg_id, m.read_ct, m.enqueued_at, m.vt, m.message, m.headers',
        pgmq.table_of(queue, 'q'), make_interval(secs => hidden)) USING most;
END $$;

CREATE FUNCTION pgmq.archive(queue text, ids bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('
        WITH gone AS (
            DELETE FROM pgmq.%I WHERE msg_id = ANY ($1) RETURNING msg_id, vt, read_ct, enqueued_at, message, headers)
        INSERT INTO pgmq.%I (msg_id, vt, read_ct, enqueued_at, message, headers)
        SELECT msg_id, vt, read_ct, enqueued_at, message, headers FROM gone
        RETURNING msg_id', pgmq.table_of(queue, 'q'), pgmq.table_of(queue, 'a')) USING ids;
END $$;`

// newPGMQ creates a queue, and n connections to the server.
func (r *Run) newPGMQ(n int) *pgxpool.Pool {
	pool := r.pool(n)
	must(pool.Exec(r.ctx, pgmqSchema))
	return pool
}

// pgmqSends measures n senders in one process, each with a connection.
func pgmqSends(n int) func(*Run) Measures {
	return func(r *Run) Measures {
		pool := r.newPGMQ(n)
		return r.measureSends(n, func(int) error {
			var id int64
			return pool.QueryRow(r.ctx, `SELECT * FROM pgmq.send($1, $2)`, "letters", []byte(letterPayload)).Scan(&id)
		})
	}
}

// pgmqTakes measures how fast a backlog is read and archived, atATime messages at a time.
func pgmqTakes(backlog, atATime int) func(*Run) Measures {
	return func(r *Run) Measures {
		pool, n := r.newPGMQ(1), r.scaled(backlog, leastBacklog)
		must(pool.Exec(r.ctx, `SELECT pgmq.send('letters', $1) FROM generate_series(1, $2)`, []byte(letterPayload), n))
		return r.rate(func() (taken int) {
			for taken < n {
				ids := r.readPGMQ(pool, atATime)
				if len(ids) == 0 {
					check(errors.New("the queue is empty too early"))
				}
				must(pool.Exec(r.ctx, `SELECT pgmq.archive('letters', $1)`, ids))
				taken += len(ids)
			}
			expect(taken, n)
			return n
		})
	}
}

func (r *Run) readPGMQ(pool *pgxpool.Pool, most int) (ids []int64) {
	rows := must(pool.Query(r.ctx, `SELECT msg_id, message FROM pgmq.read('letters', 60, $1)`, most))
	var id int64
	var message []byte
	must(pgx.ForEachRow(rows, []any{&id, &message}, func() error {
		ids = append(ids, id)
		return nil
	}))
	return ids
}
