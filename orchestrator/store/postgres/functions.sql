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
CREATE FUNCTION strftime(format text, at text, VARIADIC modifiers text[] DEFAULT '{}') RETURNS text STABLE LANGUAGE sql AS $$
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

CREATE FUNCTION json_object(VARIADIC pairs text[]) RETURNS text IMMUTABLE LANGUAGE sql AS $$
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
