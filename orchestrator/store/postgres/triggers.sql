-- What keeps message_count when rows are deleted, read or moved; see there in the schema.sql of SQLite.

CREATE FUNCTION count_message(of text, as_state text, by bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO message_count (recipient, state, n) VALUES (of, as_state, by)
    ON CONFLICT (recipient, state) DO UPDATE SET n = message_count.n + excluded.n
$$;

CREATE FUNCTION counted_up_to() RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce(max(n), 0) FROM message_count WHERE recipient = '' AND state = 'counted'
$$;

CREATE FUNCTION is_counted(status text) RETURNS boolean IMMUTABLE LANGUAGE sql AS $$
    SELECT status IN ('pending','retry','delivered','failed','expired','cancelled')
$$;

CREATE FUNCTION agent_message_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.seq <= counted_up_to() THEN
        PERFORM count_message(OLD.recipient, OLD.traced_status, -1);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER agent_message_deleted AFTER DELETE ON agent_message FOR EACH ROW
    WHEN (is_counted(OLD.traced_status)) EXECUTE FUNCTION agent_message_gone();
CREATE TRIGGER agent_message_disowned AFTER UPDATE OF traced_status ON agent_message FOR EACH ROW
    WHEN (is_counted(OLD.traced_status) AND NOT is_counted(NEW.traced_status)) EXECUTE FUNCTION agent_message_gone();

CREATE FUNCTION agent_message_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.seq <= counted_up_to() THEN
        PERFORM count_message(OLD.recipient, OLD.traced_status, -1);
    END IF;
    IF NEW.seq <= counted_up_to() THEN
        PERFORM count_message(NEW.recipient, OLD.traced_status, 1);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER agent_message_moved AFTER UPDATE OF recipient, seq ON agent_message FOR EACH ROW
    WHEN (is_counted(OLD.traced_status) AND (NEW.recipient <> OLD.recipient OR NEW.seq <> OLD.seq)) EXECUTE FUNCTION agent_message_moves();

CREATE FUNCTION agent_inbox_reads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_message(NEW.recipient, 'unread', CASE NEW.read_at WHEN '' THEN 1 ELSE -1 END);
    RETURN NULL;
END
$$;
CREATE TRIGGER agent_inbox_read AFTER UPDATE OF read_at ON agent_inbox FOR EACH ROW
    WHEN ((NEW.read_at = '') <> (OLD.read_at = '')) EXECUTE FUNCTION agent_inbox_reads();

CREATE FUNCTION agent_inbox_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_message(OLD.recipient, 'unread', -1);
    RETURN NULL;
END
$$;
CREATE TRIGGER agent_inbox_deleted AFTER DELETE ON agent_inbox FOR EACH ROW
    WHEN (OLD.read_at = '') EXECUTE FUNCTION agent_inbox_gone();

CREATE FUNCTION agent_message_archive_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM count_message('', 'archived', -1);
    RETURN NULL;
END
$$;
CREATE TRIGGER agent_message_archive_deleted AFTER DELETE ON agent_message_archive FOR EACH ROW
    EXECUTE FUNCTION agent_message_archive_gone();

-- A number that somebody has written by hand is no larger than the next ones: marks say up to which number all rows are known. What the
-- engine inserts has a traced_status.
CREATE FUNCTION agent_message_numbered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM setval('agent_message_seq_seq', NEW.seq) FROM agent_message_seq_seq WHERE NEW.seq > last_value AND NEW.seq <= 9007199254740992;
    RETURN NULL;
END
$$;
CREATE TRIGGER agent_message_inserted AFTER INSERT ON agent_message FOR EACH ROW
    WHEN (NEW.traced_status = '') EXECUTE FUNCTION agent_message_numbered();
CREATE TRIGGER agent_message_renumbered AFTER UPDATE OF seq ON agent_message FOR EACH ROW
    WHEN (NEW.seq <> OLD.seq) EXECUTE FUNCTION agent_message_numbered();
