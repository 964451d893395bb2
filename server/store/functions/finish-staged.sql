-- Ends staged samples of a batch: with their final scores, or all as failed for one reason. Counts only samples that
-- were still staged, and completes the group in the same transaction.
CREATE FUNCTION finish_staged(p_batch int, p_idx int[], p_score float8[], p_reason text) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    groups int[]; ended int[]; batches int[]; failed int[]; retries int[]; started timestamptz[]; counted int;
    substitute float8; history json;
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true);
    SELECT (reward -> 'onFailure' ->> 'value')::float8 INTO substitute FROM batch
        WHERE id = p_batch AND reward -> 'onFailure' ->> 'policy' = 'constant';
    WITH written AS (
        UPDATE sample s SET
            status = CASE WHEN p_reason IS NULL THEN 2 ELSE 3 END,
            score = CASE WHEN p_reason IS NULL THEN r.score ELSE substitute END,
            reason = p_reason, substituted = p_reason IS NOT NULL AND substitute IS NOT NULL,
            ended_at = clock_timestamp()
        FROM unnest(p_idx, p_score) AS r(idx, score)
        WHERE s.batch_id = p_batch AND s.idx = r.idx AND s.status = 1
        RETURNING s.group_no, s.attempts, s.dispatched_at, s.worker_id, s.ended_at
    ), by_group AS (
        SELECT group_no, count(*)::int AS ended, sum(greatest(attempts - 1, 0))::int AS retries,
               min(dispatched_at) AS started
        FROM written GROUP BY group_no
    ), by_worker AS (
        SELECT worker_id, date_bin('10 seconds', ended_at, 'epoch') AS at,
               CASE WHEN p_reason IS NULL THEN count(*) END AS scored,
               CASE WHEN p_reason IS NOT NULL THEN count(*) END AS failed
        FROM written GROUP BY 1, 2
    )
    SELECT array_agg(p_batch ORDER BY g.group_no), array_agg(g.group_no ORDER BY g.group_no),
           array_agg(g.ended ORDER BY g.group_no),
           array_agg(CASE WHEN p_reason IS NULL THEN 0 ELSE g.ended END ORDER BY g.group_no),
           array_agg(g.retries ORDER BY g.group_no), array_agg(g.started ORDER BY g.group_no),
           coalesce(sum(g.ended), 0),
           (SELECT json_agg(w) FROM by_worker w)
    INTO batches, groups, ended, failed, retries, started, counted, history FROM by_group g;
    IF counted > 0 THEN
        PERFORM settle_groups(batches, groups, ended, failed, retries, started);
        PERFORM add_worker_history(history);
    END IF;
    RETURN counted;
END $$;
