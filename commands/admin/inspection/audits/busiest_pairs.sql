-- The pairs of sender and recipient with the most messages, including archived messages.
-- `deepest_answer` is the highest hop count of a message from this sender to this recipient. The hop count is the number
-- of messages in the chain that led to the message. Two agents that answer each other in a loop appear at the top, with
-- a high `deepest_answer`.
-- params: pairs=20
-- columns: sender, recipient, messages, deepest_answer, latest_at
SELECT sender, recipient, count(*) AS messages, max(hops) AS deepest_answer, max(created_at) AS latest_at
FROM (SELECT sender, recipient, hops, created_at FROM agent_message
      UNION ALL SELECT sender, recipient, hops, created_at FROM agent_message_archive) AS m
GROUP BY sender, recipient ORDER BY messages DESC, sender, recipient LIMIT CAST(?2 AS INTEGER)
