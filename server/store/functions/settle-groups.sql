-- Counts scored and failed samples into their groups and batches: numbers completed groups, applies the batch's failure
-- policy to them, and ends batches whose groups have all completed. The arrays are parallel, with one element per
-- group, sorted by (batch, group) and without repetitions. p_started holds the first dispatch in each group, and is NULL
-- if no sample was dispatched.
--
-- Locks groups in order of (batch, number), then batches in order of id: without this order, two workers had 19
-- deadlocks in a run; with it, none. The lookup of completed groups is planned at each call, because a plan made for an
-- empty table may use the index of (batch, uid) and then walk all groups of the batch at every call.
CREATE FUNCTION settle_groups(
    p_batch int[], p_group int[], p_ended int[], p_failed int[], p_retries int[], p_started timestamptz[]
) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    b record;
    completed int[];
    done int;
    before int;
    policy text;
    is_closed boolean;
    size int;
BEGIN
    PERFORM 1 FROM sample_group g
        JOIN unnest(p_batch, p_group) AS t(batch_id, no) ON g.batch_id = t.batch_id AND g.no = t.no
        ORDER BY g.batch_id, g.no FOR UPDATE OF g;
    UPDATE sample_group g SET ended = g.ended + t.ended, failed = g.failed + t.failed
        FROM unnest(p_batch, p_group, p_ended, p_failed) AS t(batch_id, no, ended, failed)
        WHERE g.batch_id = t.batch_id AND g.no = t.no;
    FOR b IN
        SELECT t.batch_id, sum(t.ended)::int AS ended, sum(t.failed)::int AS failed, sum(t.retries)::int AS retries,
               min(t.started) AS started, array_agg(t.no) AS groups
        FROM unnest(p_batch, p_group, p_ended, p_failed, p_retries, p_started)
            AS t(batch_id, no, ended, failed, retries, started)
        GROUP BY t.batch_id ORDER BY t.batch_id
    LOOP
        SELECT reward -> 'onFailure' ->> 'policy', closed, group_size, groups_completed
        INTO policy, is_closed, size, before FROM batch WHERE id = b.batch_id FOR UPDATE;
        -- Looks up one group at a time. The update below joins an array that repeats the batch id, because without
        -- statistics, the plan of a join with the single batch compares all of its groups with all ended ones, 40,000
        -- comparisons per flush.
        EXECUTE 'SELECT array_agg(t.no ORDER BY t.no) FROM unnest($1) AS t(no)
            WHERE (SELECT g.seq IS NULL AND g.ended = g.received AND ($3 OR g.received = $4)
                   FROM sample_group g WHERE g.batch_id = $2 AND g.no = t.no)'
        INTO completed USING b.groups, b.batch_id, is_closed, size;
        done := coalesce(array_length(completed, 1), 0);
        IF done > 0 THEN
            UPDATE sample_group g SET seq = before + t.rank, completed_at = clock_timestamp()
            FROM unnest(array_fill(b.batch_id, ARRAY[done]), completed) WITH ORDINALITY AS t(batch_id, no, rank)
            WHERE g.batch_id = t.batch_id AND g.no = t.no;
        END IF;
        IF completed IS NOT NULL AND policy IN ('group_mean', 'drop_group') THEN
            PERFORM apply_failure_policy(b.batch_id, policy, completed);
        END IF;
        UPDATE batch SET
            scored = scored + b.ended - b.failed,
            failed = failed + b.failed,
            retries = retries + b.retries,
            groups_completed = groups_completed + done,
            started_at = coalesce(started_at, b.started),
            closed = closed OR (policy = 'fail_batch' AND b.failed > 0),
            status = CASE WHEN policy = 'fail_batch' AND b.failed > 0 AND status IN ('open', 'running') THEN 'failed'
                          WHEN closed AND status IN ('open', 'running') AND scored + failed + b.ended = samples
                               AND groups_completed + done = groups
                          THEN 'completed' ELSE status END,
            completed_at = CASE WHEN policy = 'fail_batch' AND b.failed > 0 THEN completed_at
                                WHEN closed AND completed_at IS NULL AND scored + failed + b.ended = samples
                                     AND groups_completed + done = groups
                                THEN clock_timestamp() ELSE completed_at END
        WHERE id = b.batch_id;
        IF policy = 'fail_batch' AND b.failed > 0 THEN
            PERFORM pg_notify('rewardops', 'f' || b.batch_id);
        END IF;
        PERFORM pg_notify('rewardops', 'b' || b.batch_id);
    END LOOP;
END $$;
