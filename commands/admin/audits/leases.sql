-- Deliveries under way.
-- ran_out is 1 when the lease has ended without a result: its process died or stalled, and the next run takes it back.
-- columns: message_id, recipient, lease_owner, lease_until, ran_out, crashes
SELECT message_id, recipient, lease_owner, lease_until, lease_until <= ?1 AS ran_out, crashes
FROM agent_message
WHERE lease_token <> ''
ORDER BY lease_until, seq
