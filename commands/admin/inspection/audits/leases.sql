-- Deliveries in progress.
-- `ran_out` is 1 if the lease has expired without a result, because its process died or stalled. The next delivery run
-- then makes the message available again. `unowned` is 1 if somebody wrote the lease with SQL and no process owns it.
-- To see what to do, run `mailroom why ID`.
-- columns: message_id, recipient, lease_owner, lease_until, ran_out, crashes, unowned
SELECT message_id, recipient, lease_owner, lease_until, lease_until <= ?1 AS ran_out, crashes,
       lease_owner = '' OR length(lease_token) < 26 AS unowned
FROM agent_message
WHERE status IN ('pending','retry') AND lease_token <> ''
ORDER BY lease_until, seq
