-- Deliveries under way, and whose lease has run out.
-- ?1 now. Columns: message_id, recipient, lease_owner, lease_until, ran_out, crashes.
SELECT message_id, recipient, lease_owner, lease_until, lease_until <= ?1 AS ran_out, crashes
FROM agent_message
WHERE lease_token <> ''
ORDER BY lease_until, seq
