-- Completes the finished groups of a batch after the batch was closed or samples with given scores were added. The
-- caller first makes its change visible to every flush, so a group is completed either here or by a flush, never
-- missed.
CREATE FUNCTION settle_batch(p_batch int) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    groups int[]; batches int[]; zeros int[];
BEGIN
    SELECT array_agg(g.batch_id ORDER BY g.no), array_agg(g.no ORDER BY g.no), array_agg(0 ORDER BY g.no)
    INTO batches, groups, zeros
    FROM sample_group g WHERE g.batch_id = p_batch AND g.seq IS NULL AND g.ended = g.received;
    IF groups IS NULL THEN
        PERFORM 1 FROM batch WHERE id = p_batch FOR UPDATE;
        UPDATE batch SET status = 'completed', completed_at = clock_timestamp()
        WHERE id = p_batch AND closed AND status IN ('open', 'running') AND scored + failed = samples;
        PERFORM pg_notify('rewardops', 'b' || p_batch);
    ELSE
        PERFORM settle_groups(batches, groups, zeros, zeros, zeros, NULL);
    END IF;
END $$;
