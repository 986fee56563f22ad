-- The functions of SQLite that Mailroom's statements use, as far as they use them.

-- moment returns the time that a text is, at a distance such as '+3 seconds' from it. It is NULL where the text is none, or nothing
-- can be as far away: others may have written anything.
CREATE FUNCTION moment(at text, distances text[] DEFAULT '{}') RETURNS timestamptz STABLE LANGUAGE plpgsql AS $$
BEGIN
    IF at = 'now' THEN
        RETURN clock_timestamp() + coalesce((SELECT sum(d::interval) FROM unnest(distances) AS d), '0');
    ELSIF at ~ '^\d{4}-\d\d-\d\d' THEN
        RETURN at::timestamptz + coalesce((SELECT sum(d::interval) FROM unnest(distances) AS d), '0');
    END IF;
    RETURN NULL;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END
$$;

-- strftime returns a time in the one form in which all are stored, whatever the format. Modifiers are such as '+3 seconds'.
CREATE FUNCTION strftime(format text, at text, VARIADIC modifiers text[] DEFAULT '{}') RETURNS text STABLE LANGUAGE sql SET search_path FROM CURRENT AS $$
    SELECT to_char(moment(at, modifiers) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- json_extract follows a path of names: '$.name', '$.name.name', or '$."name"' for a single one with dots in it.
CREATE FUNCTION json_extract(document text, path text) RETURNS text IMMUTABLE LANGUAGE sql AS $$
    SELECT CASE WHEN path LIKE '%"%' THEN document::json ->> trim(BOTH '"' FROM substr(path, 3))
        ELSE document::json #>> string_to_array(substr(path, 3), '.') END
$$;

CREATE FUNCTION json_valid(document text) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    PERFORM document::json;
    RETURN document IS NOT NULL;
EXCEPTION WHEN invalid_text_representation THEN
    RETURN false;
END
$$;

CREATE FUNCTION "json_object"(VARIADIC pairs text[]) RETURNS text IMMUTABLE LANGUAGE sql AS $$
    SELECT pg_catalog.json_object(pairs)::text
$$;

-- json_each returns the elements of a list of whole numbers.
CREATE FUNCTION json_each(list text) RETURNS TABLE (value bigint) IMMUTABLE LANGUAGE sql AS $$
    SELECT json_array_elements_text(list::json)::bigint
$$;

CREATE FUNCTION instr(content text, part text) RETURNS integer IMMUTABLE LANGUAGE sql AS $$
    SELECT strpos(content, part)
$$;

-- julianday returns days, so that differences of times can be taken.
CREATE FUNCTION julianday(at text) RETURNS numeric STABLE LANGUAGE sql AS $$
    SELECT extract(epoch FROM moment(at)) / 86400 + 2440587.5
$$;

-- A transaction that writes holds its floors: the last ids that the traces had when it began, above which all its own are. Each is the
-- second number of an advisory lock, whose first is the sequence. settled reads from them up to which ids the traces are complete.

CREATE FUNCTION signed32(n bigint) RETURNS integer IMMUTABLE LANGUAGE sql AS $$
    SELECT (((n & 4294967295) # 2147483648) - 2147483648)::integer
$$;

CREATE FUNCTION hold_floors() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(signed32('message_trace_id_seq'::regclass::oid::bigint), signed32(last_value - (NOT is_called)::integer))
        FROM message_trace_id_seq;
    PERFORM pg_advisory_xact_lock_shared(signed32('command_trace_id_seq'::regclass::oid::bigint), signed32(last_value - (NOT is_called)::integer))
        FROM command_trace_id_seq;
END
$$;

-- lowest_floor returns the lowest of the floors that are held, and by which process; NULL for none. last is near them.
CREATE FUNCTION lowest_floor(sequence regclass, last bigint, OUT id bigint, OUT holder integer) LANGUAGE sql AS $$
    SELECT last + signed32(objid::bigint - last), pid FROM pg_locks
    WHERE locktype = 'advisory' AND classid = sequence AND objsubid = 2
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ORDER BY 1 LIMIT 1
$$;

-- The last ids are read first: a transaction whose floors are not held by then gets larger ones, or has ended, and what it wrote is seen
-- by whoever reads the trace afterwards.
CREATE FUNCTION settled(OUT events bigint, OUT commands bigint, OUT last bigint, OUT holder integer) LANGUAGE plpgsql AS $$
BEGIN
    SELECT last_value - (NOT is_called)::integer INTO last FROM message_trace_id_seq;
    SELECT last_value - (NOT is_called)::integer INTO commands FROM command_trace_id_seq;
    SELECT least(last, f.id), f.holder INTO events, holder FROM lowest_floor('message_trace_id_seq', last) f;
    SELECT least(commands, f.id) INTO commands FROM lowest_floor('command_trace_id_seq', commands) f;
END
$$;
