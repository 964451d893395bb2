-- AlterTable
ALTER TABLE "batch" ADD COLUMN     "group_signals" JSONB;

-- AlterTable
ALTER TABLE "sample" ADD COLUMN     "staged_score" DOUBLE PRECISION;

-- AlterTable
ALTER TABLE "sample_group" ADD COLUMN     "advantages" DOUBLE PRECISION[],
ADD COLUMN     "max" DOUBLE PRECISION,
ADD COLUMN     "mean" DOUBLE PRECISION,
ADD COLUMN     "min" DOUBLE PRECISION,
ADD COLUMN     "post_queued" BOOLEAN NOT NULL DEFAULT false,
ADD COLUMN     "scored" INTEGER,
ADD COLUMN     "signal" TEXT,
ADD COLUMN     "std" DOUBLE PRECISION,
ADD COLUMN     "substituted" INTEGER;

-- Nothing scored by a function with post-processing counts before its whole group was post-processed: until then it is
-- status 1, pending to all who ask (a cancelled batch ends it, no statistic sees it), with its score beside it. So
-- what a flush does is as before.
CREATE FUNCTION stage_results(
    p_worker int, p_batch int[], p_idx int[], p_status smallint[], p_attempts smallint[], p_score float8[],
    p_raw float8[], p_reason text[], p_substituted boolean[], p_extra text[], p_queue_ms real[],
    p_score_ms real[], p_server int[], p_dispatched float8[]
) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    counted int;
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true);
    UPDATE sample s SET
        status = 1, attempts = r.attempts, staged_score = r.score, raw_score = r.raw, reward_extra = r.extra::json,
        queue_ms = r.queue_ms, score_ms = r.score_ms, server_id = r.server, worker_id = p_worker,
        dispatched_at = to_timestamp(r.dispatched / 1000)
    FROM unnest(p_batch, p_idx, p_attempts, p_score, p_raw, p_extra, p_queue_ms, p_score_ms, p_server, p_dispatched)
        AS r(batch_id, idx, attempts, score, raw, extra, queue_ms, score_ms, server, dispatched)
    WHERE s.batch_id = r.batch_id AND s.idx = r.idx AND s.status = 0;
    GET DIAGNOSTICS counted = ROW_COUNT;
    RETURN counted;
END $$;

-- Ends staged samples of a batch: with their final scores, or all with one reason. Counts what was still staged, and
-- completes the group in the same transaction.
CREATE FUNCTION finish_staged(p_batch int, p_idx int[], p_score float8[], p_reason text) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    groups int[]; ended int[]; batches int[]; failed int[]; retries int[]; started timestamptz; counted int;
    substitute float8;
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
        RETURNING s.group_no, s.attempts, s.dispatched_at
    ), by_group AS (
        SELECT group_no, count(*)::int AS ended, sum(greatest(attempts - 1, 0))::int AS retries,
               min(dispatched_at) AS started
        FROM written GROUP BY group_no
    )
    SELECT array_agg(p_batch ORDER BY g.group_no), array_agg(g.group_no ORDER BY g.group_no),
           array_agg(g.ended ORDER BY g.group_no),
           array_agg(CASE WHEN p_reason IS NULL THEN 0 ELSE g.ended END ORDER BY g.group_no),
           array_agg(g.retries ORDER BY g.group_no), min(g.started), coalesce(sum(g.ended), 0)
    INTO batches, groups, ended, failed, retries, started, counted FROM by_group g;
    IF counted > 0 THEN
        PERFORM settle_groups(batches, groups, ended, failed, retries, started);
    END IF;
    RETURN counted;
END $$;
