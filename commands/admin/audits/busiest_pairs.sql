-- Who writes to whom most: a loop between two agents shows at the top.
-- params: 20
-- ?1 now (unused), ?2 how many. Columns: sender, recipient, messages, deepest_answer, latest_at.
SELECT sender, recipient, count(*) AS messages, max(hops) AS deepest_answer, max(created_at) AS latest_at
FROM agent_message
WHERE ?1 IS NOT NULL
GROUP BY sender, recipient ORDER BY messages DESC, sender, recipient LIMIT CAST(?2 AS INTEGER)
