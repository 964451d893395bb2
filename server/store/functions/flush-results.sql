-- Writes results of pending samples and settles the groups and batches that they complete. Returns the number of
-- results that counted, so repeating a flush after a lost connection changes nothing. The caller passes the results in
-- order of (batch, index), the order in which samples are locked. A staged score (status 1) is kept, because a worker
-- that was wrongly declared dead may report a failure of a sample that another worker has already scored.
CREATE FUNCTION flush_results(
    p_worker int, p_batch int[], p_idx int[], p_status smallint[], p_attempts smallint[], p_score float8[],
    p_raw float8[], p_reason text[], p_substituted boolean[], p_extra text[], p_queue_ms real[],
    p_score_ms real[], p_server int[], p_dispatched float8[], p_verdict text[], p_extracted text[],
    p_rewards text[]
) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    batches int[]; groups int[]; ended int[]; failed int[]; retries int[]; started timestamptz[]; counted int;
    history json;
BEGIN
    -- The commit of results waits for the disk, regardless of the session's setting.
    PERFORM set_config('synchronous_commit', 'on', true);
    WITH result AS (
        SELECT * FROM unnest(p_batch, p_idx, p_status, p_attempts, p_score, p_raw, p_reason, p_substituted,
                             p_extra, p_queue_ms, p_score_ms, p_server, p_dispatched, p_verdict, p_extracted, p_rewards)
            AS t(batch_id, idx, status, attempts, score, raw, reason, substituted, extra, queue_ms, score_ms,
                 server, dispatched, verdict, extracted, rewards)
    ), written AS (
        UPDATE sample s SET
            status = r.status, attempts = r.attempts, score = r.score, raw_score = r.raw, reason = r.reason,
            substituted = r.substituted, reward_extra = r.extra::json,
            verdict = r.verdict, extracted = r.extracted, rewards = r.rewards::json, queue_ms = r.queue_ms,
            score_ms = r.score_ms, server_id = r.server, worker_id = p_worker,
            dispatched_at = to_timestamp(r.dispatched / 1000), ended_at = clock_timestamp()
        FROM result r
        WHERE s.batch_id = r.batch_id AND s.idx = r.idx AND s.status = 0
        RETURNING s.batch_id, s.group_no, s.status, s.attempts, s.dispatched_at, s.ended_at
    ), by_group AS (
        SELECT batch_id, group_no, count(*)::int AS ended, (count(*) FILTER (WHERE status = 3))::int AS failed,
               sum(greatest(attempts - 1, 0))::int AS retries, min(dispatched_at) AS started
        FROM written GROUP BY batch_id, group_no
    ), by_time AS (
        SELECT p_worker AS worker_id, date_bin('10 seconds', ended_at, 'epoch') AS at,
               count(*) FILTER (WHERE status = 2) AS scored, count(*) FILTER (WHERE status = 3) AS failed
        FROM written GROUP BY 2
    )
    SELECT array_agg(g.batch_id ORDER BY g.batch_id, g.group_no), array_agg(g.group_no ORDER BY g.batch_id, g.group_no),
           array_agg(g.ended ORDER BY g.batch_id, g.group_no), array_agg(g.failed ORDER BY g.batch_id, g.group_no),
           array_agg(g.retries ORDER BY g.batch_id, g.group_no), array_agg(g.started ORDER BY g.batch_id, g.group_no),
           coalesce(sum(g.ended), 0),
           (SELECT json_agg(t) FROM by_time t)
    INTO batches, groups, ended, failed, retries, started, counted, history FROM by_group g;
    IF counted > 0 THEN
        PERFORM settle_groups(batches, groups, ended, failed, retries, started);
        PERFORM add_worker_history(history);
    END IF;
    RETURN counted;
END $$;
