-- Deliveries in progress.
-- ran_out is 1 when the lease has ended without a result: its process died or stalled, and the next run takes the message back.
-- unowned is 1 for a lease that somebody wrote by hand: no process holds it. `mailroom why ID` says what to do about it.
-- columns: message_id, recipient, lease_owner, lease_until, ran_out, crashes, unowned
SELECT message_id, recipient, lease_owner, lease_until, lease_until <= ?1 AS ran_out, crashes,
       lease_owner = '' OR length(lease_token) < 26 AS unowned
FROM agent_message
WHERE status IN ('pending','retry') AND lease_token <> ''
ORDER BY lease_until, seq
