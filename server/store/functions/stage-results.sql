-- Stores scores that wait for the post-processing of their group (status 1). A staged sample counts as pending: no
-- statistic includes it, and cancelling its batch ends it.
CREATE FUNCTION stage_results(
    p_worker int, p_batch int[], p_idx int[], p_status smallint[], p_attempts smallint[], p_score float8[],
    p_raw float8[], p_reason text[], p_substituted boolean[], p_extra text[], p_queue_ms real[],
    p_score_ms real[], p_server int[], p_dispatched float8[], p_verdict text[], p_extracted text[],
    p_rewards text[]
) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    counted int;
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true);
    UPDATE sample s SET
        status = 1, attempts = r.attempts, staged_score = r.score, raw_score = r.raw, reward_extra = r.extra::json,
        verdict = r.verdict, extracted = r.extracted, rewards = r.rewards::json, queue_ms = r.queue_ms, score_ms = r.score_ms, server_id = r.server, worker_id = p_worker,
        dispatched_at = to_timestamp(r.dispatched / 1000)
    FROM unnest(p_batch, p_idx, p_attempts, p_score, p_raw, p_extra, p_queue_ms, p_score_ms, p_server, p_dispatched,
                p_verdict, p_extracted, p_rewards)
        AS r(batch_id, idx, attempts, score, raw, extra, queue_ms, score_ms, server, dispatched, verdict, extracted, rewards)
    WHERE s.batch_id = r.batch_id AND s.idx = r.idx AND s.status = 0;
    GET DIAGNOSTICS counted = ROW_COUNT;
    RETURN counted;
END $$;
