-- Ends every pending sample of a batch with a reason (`deadline` or `cancelled`). The score of the failure policy
-- `constant` is set here, as in the workers.
CREATE FUNCTION end_pending(p_batch int, p_reason text) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    groups int[]; ended int[]; batches int[]; zeros int[]; counted int; substitute float8;
BEGIN
    SELECT (reward -> 'onFailure' ->> 'value')::float8 INTO substitute FROM batch
        WHERE id = p_batch AND reward -> 'onFailure' ->> 'policy' = 'constant';
    -- Locks samples in the same order as flushes. A scan would lock them in physical order; 1 of 390 such calls
    -- deadlocked with flushes of the same samples.
    PERFORM 1 FROM sample WHERE batch_id = p_batch AND status < 2 ORDER BY idx FOR UPDATE;
    WITH written AS (
        UPDATE sample SET status = 3, reason = p_reason, score = substitute, substituted = substitute IS NOT NULL,
            ended_at = clock_timestamp()
        WHERE batch_id = p_batch AND status < 2 RETURNING group_no
    ), by_group AS (
        SELECT group_no, count(*)::int AS ended FROM written GROUP BY group_no
    )
    SELECT array_agg(p_batch ORDER BY g.group_no), array_agg(g.group_no ORDER BY g.group_no),
           array_agg(g.ended ORDER BY g.group_no), array_agg(0 ORDER BY g.group_no), coalesce(sum(g.ended), 0)
    INTO batches, groups, ended, zeros, counted FROM by_group g;
    IF counted > 0 THEN
        PERFORM settle_groups(batches, groups, ended, ended, zeros, NULL);
    END IF;
    -- Notifies workers to drop these samples.
    PERFORM pg_notify('rewardops', 'x' || p_batch);
    RETURN counted;
END $$;
