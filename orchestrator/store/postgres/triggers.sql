-- What keeps message_count when rows are deleted, read or moved; see there in the schema.sql of SQLite. Whoever writes by hand may
-- have another search_path.

CREATE FUNCTION count_message(of text, as_state text, by bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO message_count (recipient, state, n) VALUES (of, as_state, by)
    ON CONFLICT (recipient, state) DO UPDATE SET n = CASE WHEN message_count.n BETWEEN -9007199254740992 AND 9007199254740992
        THEN message_count.n + excluded.n ELSE message_count.n END
$$;

CREATE FUNCTION counted_up_to() RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce(max(CASE WHEN n BETWEEN 0 AND 9007199254740992 THEN n ELSE 9007199254740992 END), 0)
    FROM message_count WHERE recipient = '' AND state = 'counted'
$$;

CREATE FUNCTION is_counted(status text) RETURNS boolean IMMUTABLE LANGUAGE sql AS $$
    SELECT status IN ('pending','retry','delivered','failed','expired','cancelled')
$$;

CREATE FUNCTION agent_message_gone() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF OLD.seq <= counted_up_to() THEN
        PERFORM count_message(OLD.recipient, OLD.traced_status, -1);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER agent_message_deleted AFTER DELETE ON agent_message FOR EACH ROW
    WHEN (is_counted(OLD.traced_status)) EXECUTE FUNCTION agent_message_gone();

CREATE FUNCTION agent_message_moves() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
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

CREATE FUNCTION agent_inbox_reads() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM count_message(NEW.recipient, 'unread', CASE NEW.read_at WHEN '' THEN 1 ELSE -1 END);
    RETURN NULL;
END
$$;
CREATE TRIGGER agent_inbox_read AFTER UPDATE OF read_at ON agent_inbox FOR EACH ROW
    WHEN ((NEW.read_at = '') <> (OLD.read_at = '')) EXECUTE FUNCTION agent_inbox_reads();

CREATE FUNCTION agent_inbox_gone() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM count_message(OLD.recipient, 'unread', -1);
    RETURN NULL;
END
$$;
CREATE TRIGGER agent_inbox_deleted AFTER DELETE ON agent_inbox FOR EACH ROW
    WHEN (OLD.read_at = '') EXECUTE FUNCTION agent_inbox_gone();

CREATE FUNCTION agent_message_archive_gone() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM count_message('', 'archived', -1);
    RETURN NULL;
END
$$;
CREATE TRIGGER agent_message_archive_deleted AFTER DELETE ON agent_message_archive FOR EACH ROW
    EXECUTE FUNCTION agent_message_archive_gone();

-- A number that somebody has written by hand is no larger than the next ones: marks say up to which number all rows are known. What the
-- engine inserts has a traced_status. Whoever writes by hand has no right to set the sequence, which could be set to its end; the function has.
CREATE FUNCTION agent_message_numbered() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM setval('agent_message_seq_seq', NEW.seq) FROM agent_message_seq_seq WHERE NEW.seq > last_value AND NEW.seq <= 9007199254740992;
    RETURN NULL;
END
$$;
ALTER FUNCTION agent_message_numbered() SECURITY DEFINER;
DO $$
BEGIN -- a temporary table of the writer's is not to stand for the sequence
    EXECUTE format('ALTER FUNCTION agent_message_numbered() SET search_path = %I, pg_temp', current_schema());
END
$$;
REVOKE ALL ON FUNCTION agent_message_numbered() FROM PUBLIC;
CREATE TRIGGER agent_message_inserted AFTER INSERT ON agent_message FOR EACH ROW
    WHEN (NEW.traced_status = '') EXECUTE FUNCTION agent_message_numbered();
CREATE TRIGGER agent_message_renumbered AFTER UPDATE OF seq ON agent_message FOR EACH ROW
    WHEN (NEW.seq <> OLD.seq) EXECUTE FUNCTION agent_message_numbered();

-- The view NAME_inbox of an agent: an INSERT delivers, a DELETE reads; see inbox_view.go. The arguments are the agent, and the numbers of
-- the locks of whoever writes and of the agent.

CREATE FUNCTION inbox_put() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(TG_ARGV[1]::integer, TG_ARGV[2]::integer);
    INSERT INTO agent_inbox (recipient, message_id, payload) VALUES (TG_ARGV[0], NEW.message_id, NEW.payload)
    ON CONFLICT (message_id, recipient) DO NOTHING;
    IF FOUND THEN
        PERFORM count_message(TG_ARGV[0], 'unread', 1);
    END IF;
    RETURN NEW;
END
$$;

CREATE FUNCTION inbox_read() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    agent text := TG_ARGV[0];
    time text;
    unread boolean;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(TG_ARGV[1]::integer, TG_ARGV[2]::integer);
    PERFORM pg_advisory_xact_lock(TG_ARGV[3]::integer, TG_ARGV[4]::integer);
    PERFORM hold_floors();
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I WHERE message_id = $1)', TG_TABLE_NAME) INTO unread USING OLD.message_id;
    IF NOT unread THEN
        RETURN NULL; -- somebody else has read it meanwhile
    END IF;
    time := strftime('%Y-%m-%dT%H:%M:%fZ', 'now');
    UPDATE agent_inbox SET read_at = time WHERE recipient = agent AND message_id = OLD.message_id;
    INSERT INTO message_trace (message_id, at, event, old_status, new_status, actor)
    VALUES (OLD.message_id, time, 'read', 'delivered', 'delivered', agent || '_inbox');
    UPDATE agent_message SET read_at = time, review_at = '' WHERE message_id = OLD.message_id AND recipient = agent AND status = 'delivered';
    UPDATE agent_message_archive SET read_at = time WHERE message_id = OLD.message_id AND recipient = agent AND read_at = '';
    DELETE FROM reading_lease WHERE message_id = OLD.message_id AND recipient = agent;
    RETURN OLD;
END
$$;
