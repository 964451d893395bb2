-- Appends samples that arrive one at a time (samples.score) to the end of an open batch, in one round trip. Returns the
-- first index. Raises RW001 if a group would be too large, RW002 with the next index if p_start differs from it, and
-- RW003 if the batch is closed or was removed. A failed sample of a batch with fail_batch closes it without the advisory
-- lock, so the update of the batch, which waits for that transaction, checks this again. The commit waits for the disk.
-- Otherwise, other samples could get the same indexes after a crash, and their callers would get the scores of these
-- samples.
CREATE FUNCTION append_singles(
    p_batch int, p_start int, p_notify text, p_uid text[], p_prompt_key bytea[], p_score float8[], {sample parameters}, {text parameters}
) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v batch%ROWTYPE; start int; n int := array_length(p_uid, 1); scored_already int; u record; no_of int; size_of int;
    numbers int[] := '{}'; i int;
BEGIN
    PERFORM pg_advisory_xact_lock(72707371, p_batch);
    SELECT * INTO v FROM batch WHERE id = p_batch;
    IF NOT FOUND OR v.closed THEN RAISE EXCEPTION 'closed' USING ERRCODE = 'RW003'; END IF;
    IF v.samples <> p_start THEN RAISE EXCEPTION '%', v.samples USING ERRCODE = 'RW002'; END IF;
    start := v.samples;
    PERFORM 1 FROM sample_group WHERE batch_id = p_batch AND uid = ANY (p_uid) ORDER BY no FOR UPDATE;
    FOR i IN 1..n LOOP
        UPDATE sample_group SET received = received + 1, ended = ended + (p_score[i] IS NOT NULL)::int
            WHERE batch_id = p_batch AND uid = p_uid[i] RETURNING no, received INTO no_of, size_of;
        IF NOT FOUND THEN
            INSERT INTO sample_group (batch_id, no, uid, received, ended, prompt_key)
            VALUES (p_batch, v.groups, p_uid[i], 1, (p_score[i] IS NOT NULL)::int, p_prompt_key[i]);
            no_of := v.groups; size_of := 1;
            v.groups := v.groups + 1;
        END IF;
        IF size_of > v.group_size THEN
            RAISE EXCEPTION 'uid "%" has % samples and groupSize is %.', p_uid[i], size_of, v.group_size
                USING ERRCODE = 'RW001';
        END IF;
        numbers := numbers || no_of;
    END LOOP;
    INSERT INTO sample (batch_id, idx, group_no, status, score, raw_score, ended_at, {sample columns})
        SELECT p_batch, start + ord - 1, no, CASE WHEN score IS NULL THEN 0 ELSE 2 END, score, score,
               CASE WHEN score IS NULL THEN NULL ELSE clock_timestamp() END, {sample columns}
        FROM unnest(numbers, p_score, {sample arrays}) WITH ORDINALITY AS t(no, score, {sample columns}, ord);
    INSERT INTO sample_text (bucket, batch_id, idx, {text columns})
        SELECT v.text_bucket, p_batch, start + ord - 1, {text columns}
        FROM unnest({text arrays}) WITH ORDINALITY AS t({text columns}, ord);
    scored_already := (SELECT count(*) FROM unnest(p_score) s WHERE s IS NOT NULL);
    UPDATE batch SET samples = samples + n, scored = scored + scored_already, groups = v.groups,
        last_append_at = clock_timestamp() WHERE id = p_batch AND NOT closed;
    IF NOT FOUND THEN RAISE EXCEPTION 'closed' USING ERRCODE = 'RW003'; END IF;
    IF scored_already > 0 THEN PERFORM settle_batch(p_batch); END IF;
    PERFORM pg_notify('rewardops', p_notify);
    RETURN start;
END $$;
