CREATE TABLE "run" (
    "id" SERIAL NOT NULL,
    "name" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "run_pkey" PRIMARY KEY ("id")
);
CREATE UNIQUE INDEX "run_name_key" ON "run"("name");

CREATE TABLE "batch" (
    "id" SERIAL NOT NULL,
    "run_id" INTEGER NOT NULL,
    "step" INTEGER NOT NULL,
    "split" TEXT NOT NULL,
    "status" TEXT NOT NULL,
    "closed" BOOLEAN NOT NULL DEFAULT false,
    "group_size" INTEGER,
    "reward" JSONB NOT NULL,
    "reward_name" TEXT NOT NULL,
    "priority" INTEGER NOT NULL DEFAULT 0,
    "samples" INTEGER NOT NULL DEFAULT 0,
    "scored" INTEGER NOT NULL DEFAULT 0,
    "failed" INTEGER NOT NULL DEFAULT 0,
    "groups" INTEGER NOT NULL DEFAULT 0,
    "groups_completed" INTEGER NOT NULL DEFAULT 0,
    "retries" INTEGER NOT NULL DEFAULT 0,
    "submitted_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "started_at" TIMESTAMPTZ(6),
    "completed_at" TIMESTAMPTZ(6),
    "deadline_at" TIMESTAMPTZ(6),
    "last_append_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "implicit_key" TEXT,
    "idempotency_key" TEXT,
    "content_hash" BYTEA,
    "text_bucket" DATE NOT NULL,
    "mean" DOUBLE PRECISION,
    "std" DOUBLE PRECISION,
    "min" DOUBLE PRECISION,
    "max" DOUBLE PRECISION,
    CONSTRAINT "batch_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "batch_status_check" CHECK ("status" IN ('open', 'running', 'completed', 'cancelled', 'failed')),
    CONSTRAINT "batch_counts_check" CHECK ("scored" >= 0 AND "failed" >= 0 AND "scored" + "failed" <= "samples"
        AND "groups_completed" >= 0 AND "groups_completed" <= "groups")
) WITH (fillfactor = 20);
CREATE UNIQUE INDEX "batch_idempotency_key_key" ON "batch"("idempotency_key");
CREATE INDEX "batch_run_id_id_idx" ON "batch"("run_id", "id");
CREATE INDEX "batch_status_idx" ON "batch"("status");
-- At most one implicit batch of a kind is open.
CREATE UNIQUE INDEX "batch_implicit_open" ON "batch"("implicit_key") WHERE "implicit_key" IS NOT NULL AND NOT "closed";

CREATE TABLE "sample_group" (
    "batch_id" INTEGER NOT NULL,
    "no" INTEGER NOT NULL,
    "uid" TEXT NOT NULL,
    "received" INTEGER NOT NULL,
    "ended" INTEGER NOT NULL DEFAULT 0,
    "failed" INTEGER NOT NULL DEFAULT 0,
    "seq" INTEGER,
    "completed_at" TIMESTAMPTZ(6),
    CONSTRAINT "sample_group_pkey" PRIMARY KEY ("batch_id", "no"),
    CONSTRAINT "sample_group_counts_check" CHECK ("ended" >= 0 AND "ended" <= "received")
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX "sample_group_batch_id_uid_key" ON "sample_group"("batch_id", "uid");

-- The first update of a row carries the result; 60 leaves room for it in the same page.
CREATE TABLE "sample" (
    "batch_id" INTEGER NOT NULL,
    "idx" INTEGER NOT NULL,
    "group_no" INTEGER NOT NULL,
    "status" SMALLINT NOT NULL DEFAULT 0,
    "attempts" SMALLINT NOT NULL DEFAULT 0,
    "data_source" TEXT NOT NULL,
    "response_length" INTEGER,
    "score" DOUBLE PRECISION,
    "raw_score" DOUBLE PRECISION,
    "reason" TEXT,
    "substituted" BOOLEAN NOT NULL DEFAULT false,
    "reward_extra" JSON,
    "queue_ms" REAL,
    "score_ms" REAL,
    "server_id" INTEGER,
    "worker_id" INTEGER,
    "dispatched_at" TIMESTAMPTZ(6),
    "ended_at" TIMESTAMPTZ(6),
    CONSTRAINT "sample_pkey" PRIMARY KEY ("batch_id", "idx"),
    CONSTRAINT "sample_outcome_check" CHECK (CASE "status"
        WHEN 2 THEN "score" IS NOT NULL AND "reason" IS NULL
        WHEN 3 THEN "reason" IS NOT NULL AND ("score" IS NULL OR "substituted")
        ELSE "score" IS NULL AND "reason" IS NULL END)
) WITH (fillfactor = 50);

-- Kept uncompressed, and inline up to 8 kB: a rollout of 3 kB then costs one heap tuple instead of
-- compression, or a TOAST tuple and its index entry a column.
CREATE TABLE "sample_text" (
    "bucket" DATE NOT NULL,
    "batch_id" INTEGER NOT NULL,
    "idx" INTEGER NOT NULL,
    "prompt" TEXT NOT NULL,
    "response" TEXT NOT NULL,
    "ground_truth" TEXT,
    "extra_info" TEXT,
    "encoding" SMALLINT NOT NULL DEFAULT 0,
    CONSTRAINT "sample_text_pkey" PRIMARY KEY ("bucket", "batch_id", "idx")
) PARTITION BY RANGE ("bucket");
ALTER TABLE "sample_text"
    ALTER COLUMN "prompt" SET STORAGE EXTERNAL,
    ALTER COLUMN "response" SET STORAGE EXTERNAL,
    ALTER COLUMN "ground_truth" SET STORAGE EXTERNAL,
    ALTER COLUMN "extra_info" SET STORAGE EXTERNAL;

CREATE TABLE "attempt" (
    "id" BIGSERIAL NOT NULL,
    "batch_id" INTEGER NOT NULL,
    "idx" INTEGER NOT NULL,
    "attempt" SMALLINT NOT NULL,
    "server_id" INTEGER,
    "worker_id" INTEGER NOT NULL,
    "started_at" TIMESTAMPTZ(6) NOT NULL,
    "queue_ms" REAL NOT NULL,
    "backoff_ms" REAL NOT NULL,
    "service_ms" REAL NOT NULL,
    "outcome" TEXT NOT NULL,
    "reason" TEXT,
    "status_code" SMALLINT,
    "detail" TEXT,
    CONSTRAINT "attempt_pkey" PRIMARY KEY ("id")
);
CREATE INDEX "attempt_batch_id_idx_idx" ON "attempt"("batch_id", "idx");
CREATE INDEX "attempt_started_at_idx" ON "attempt"("started_at");

CREATE TABLE "server" (
    "id" SERIAL NOT NULL,
    "name" TEXT NOT NULL,
    "url" TEXT NOT NULL,
    "engine" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "model" TEXT NOT NULL,
    "weight" DOUBLE PRECISION NOT NULL DEFAULT 1,
    "max_in_flight" INTEGER,
    "api_key" TEXT,
    "tags" TEXT[],
    "version" TEXT,
    "max_model_len" INTEGER,
    "state" TEXT NOT NULL,
    "state_cause" TEXT,
    "state_since" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "last_probe_at" TIMESTAMPTZ(6),
    "registered_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "removed_at" TIMESTAMPTZ(6),
    "requests" BIGINT NOT NULL DEFAULT 0,
    "errors" BIGINT NOT NULL DEFAULT 0,
    "retries" BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT "server_pkey" PRIMARY KEY ("id")
);
CREATE UNIQUE INDEX "server_name_key" ON "server"("name");
CREATE INDEX "server_model_idx" ON "server"("model");

CREATE TABLE "server_event" (
    "id" SERIAL NOT NULL,
    "server_id" INTEGER NOT NULL,
    "from" TEXT,
    "to" TEXT NOT NULL,
    "cause" TEXT NOT NULL,
    "at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "server_event_pkey" PRIMARY KEY ("id")
);
CREATE INDEX "server_event_server_id_id_idx" ON "server_event"("server_id", "id");

CREATE TABLE "server_minute" (
    "server_id" INTEGER NOT NULL,
    "minute" TIMESTAMPTZ(6) NOT NULL,
    "requests" INTEGER NOT NULL,
    "errors" INTEGER NOT NULL,
    "retries" INTEGER NOT NULL,
    "latency_ms" INTEGER[],
    CONSTRAINT "server_minute_pkey" PRIMARY KEY ("server_id", "minute")
);

CREATE TABLE "pool" (
    "name" TEXT NOT NULL,
    "model" TEXT,
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "pool_pkey" PRIMARY KEY ("name")
);
CREATE UNIQUE INDEX "pool_model_key" ON "pool"("model");

CREATE TABLE "worker" (
    "id" SERIAL NOT NULL,
    "host" TEXT NOT NULL,
    "pid" INTEGER NOT NULL,
    "local" BOOLEAN NOT NULL,
    "state" TEXT NOT NULL,
    "started_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "last_seen_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "ended_at" TIMESTAMPTZ(6),
    "requeued" INTEGER NOT NULL DEFAULT 0,
    "stats" JSONB NOT NULL DEFAULT '{}',
    CONSTRAINT "worker_pkey" PRIMARY KEY ("id")
) WITH (fillfactor = 20);
CREATE INDEX "worker_state_idx" ON "worker"("state");

CREATE TABLE "claim" (
    "job_id" UUID NOT NULL,
    "queue" TEXT NOT NULL,
    "worker_id" INTEGER NOT NULL,
    "batch_id" INTEGER NOT NULL,
    "first_idx" INTEGER NOT NULL,
    "last_idx" INTEGER NOT NULL,
    "samples" INTEGER NOT NULL,
    "claimed_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "claim_pkey" PRIMARY KEY ("job_id")
);
CREATE INDEX "claim_worker_id_idx" ON "claim"("worker_id");
CREATE INDEX "claim_batch_id_idx" ON "claim"("batch_id");

CREATE TABLE "lease" (
    "resource" TEXT NOT NULL,
    "worker_id" INTEGER NOT NULL,
    "slots" INTEGER NOT NULL,
    "demand" INTEGER NOT NULL,
    "expires_at" TIMESTAMPTZ(6) NOT NULL,
    CONSTRAINT "lease_pkey" PRIMARY KEY ("resource", "worker_id")
);

CREATE TABLE "score_key" (
    "key" TEXT NOT NULL,
    "batch_id" INTEGER NOT NULL,
    "idx" INTEGER NOT NULL,
    "content_hash" BYTEA NOT NULL,
    CONSTRAINT "score_key_pkey" PRIMARY KEY ("key")
);

-- Every statement in these functions looks rows up by key. Their plans are kept, and the first is made while the tables
-- are nearly empty, when scanning them looks cheap: so scans are switched off for them, and planning
-- anew at each call, which the arrays' lengths would otherwise tempt Postgres to (1.1 ms of a flush's 1.8; settle_groups is only
-- called by the others, under their settings).

-- Counts ended samples into their groups and batches. Locks groups in order of (batch, number), then
-- batches in order of id: with the order left to chance 2 workers gave 19 deadlocks in a run, sorted none.
-- The arrays are parallel, one element a group touched, sorted by (batch, group) and free of repetitions.
CREATE FUNCTION settle_groups(
    p_batch int[], p_group int[], p_ended int[], p_failed int[], p_retries int[], p_started timestamptz
) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    b record;
    done int;
    total int;
    live boolean;
BEGIN
    PERFORM 1 FROM sample_group g
        JOIN unnest(p_batch, p_group) AS t(batch_id, no) ON g.batch_id = t.batch_id AND g.no = t.no
        ORDER BY g.batch_id, g.no FOR UPDATE OF g;
    UPDATE sample_group g SET ended = g.ended + t.ended, failed = g.failed + t.failed
        FROM unnest(p_batch, p_group, p_ended, p_failed) AS t(batch_id, no, ended, failed)
        WHERE g.batch_id = t.batch_id AND g.no = t.no;
    FOR b IN
        SELECT t.batch_id, sum(t.ended)::int AS ended, sum(t.failed)::int AS failed, sum(t.retries)::int AS retries,
               array_agg(t.no) AS groups
        FROM unnest(p_batch, p_group, p_ended, p_failed, p_retries) AS t(batch_id, no, ended, failed, retries)
        GROUP BY t.batch_id ORDER BY t.batch_id
    LOOP
        PERFORM 1 FROM batch WHERE id = b.batch_id FOR UPDATE;
        WITH ready AS (
            SELECT g.no, row_number() OVER (ORDER BY g.no) AS rank
            FROM sample_group g JOIN batch ON batch.id = g.batch_id
            WHERE g.batch_id = b.batch_id AND g.no = ANY (b.groups) AND g.seq IS NULL AND g.ended = g.received
              AND (batch.closed OR g.received = batch.group_size)
        ), numbered AS (
            UPDATE sample_group g SET seq = batch.groups_completed + ready.rank, completed_at = clock_timestamp()
            FROM ready, batch
            WHERE batch.id = b.batch_id AND g.batch_id = b.batch_id AND g.no = ready.no
            RETURNING 1
        )
        SELECT count(*) INTO done FROM numbered;
        UPDATE batch SET
            scored = scored + b.ended - b.failed,
            failed = failed + b.failed,
            retries = retries + b.retries,
            groups_completed = groups_completed + done,
            started_at = coalesce(started_at, p_started),
            status = CASE WHEN closed AND status IN ('open', 'running') AND scored + failed + b.ended = samples
                          THEN 'completed' ELSE status END,
            completed_at = CASE WHEN closed AND completed_at IS NULL AND scored + failed + b.ended = samples
                                THEN clock_timestamp() ELSE completed_at END
        WHERE id = b.batch_id;
        PERFORM pg_notify('rewardops', 'b' || b.batch_id);
    END LOOP;
END $$;

-- Writes results that count only where the sample is still pending, and settles what they complete. The caller gives them
-- in order of (batch, index): samples are locked in that order, as end_pending locks them.
-- Returns how many counted: repeating a flush after a lost connection changes nothing.
CREATE FUNCTION flush_results(
    p_worker int, p_batch int[], p_idx int[], p_status smallint[], p_attempts smallint[], p_score float8[],
    p_raw float8[], p_reason text[], p_substituted boolean[], p_extra text[], p_queue_ms real[],
    p_score_ms real[], p_server int[], p_dispatched float8[]
) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    batches int[]; groups int[]; ended int[]; failed int[]; retries int[]; started timestamptz; counted int;
BEGIN
    -- Results count when they are on disk, whatever the session says of its other commits.
    PERFORM set_config('synchronous_commit', 'on', true);
    WITH result AS (
        SELECT * FROM unnest(p_batch, p_idx, p_status, p_attempts, p_score, p_raw, p_reason, p_substituted,
                             p_extra, p_queue_ms, p_score_ms, p_server, p_dispatched)
            AS t(batch_id, idx, status, attempts, score, raw, reason, substituted, extra, queue_ms, score_ms,
                 server, dispatched)
    ), written AS (
        UPDATE sample s SET
            status = r.status, attempts = r.attempts, score = r.score, raw_score = r.raw, reason = r.reason,
            substituted = r.substituted, reward_extra = r.extra::json, queue_ms = r.queue_ms,
            score_ms = r.score_ms, server_id = r.server, worker_id = p_worker,
            dispatched_at = to_timestamp(r.dispatched / 1000), ended_at = clock_timestamp()
        FROM result r
        WHERE s.batch_id = r.batch_id AND s.idx = r.idx AND s.status < 2
        RETURNING s.batch_id, s.group_no, s.status, s.attempts, s.dispatched_at
    ), by_group AS (
        SELECT batch_id, group_no, count(*)::int AS ended, (count(*) FILTER (WHERE status = 3))::int AS failed,
               sum(greatest(attempts - 1, 0))::int AS retries, min(dispatched_at) AS started
        FROM written GROUP BY batch_id, group_no
    )
    SELECT array_agg(g.batch_id ORDER BY g.batch_id, g.group_no), array_agg(g.group_no ORDER BY g.batch_id, g.group_no),
           array_agg(g.ended ORDER BY g.batch_id, g.group_no), array_agg(g.failed ORDER BY g.batch_id, g.group_no),
           array_agg(g.retries ORDER BY g.batch_id, g.group_no), min(g.started), coalesce(sum(g.ended), 0)
    INTO batches, groups, ended, failed, retries, started, counted FROM by_group g;
    IF counted > 0 THEN
        PERFORM settle_groups(batches, groups, ended, failed, retries, started);
    END IF;
    RETURN counted;
END $$;

-- Ends every sample of a batch that has not ended, with a reason: a passed deadline, a cancelled batch. A constant
-- to put in a failure's place is put here as by the workers.
CREATE FUNCTION end_pending(p_batch int, p_reason text) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    groups int[]; ended int[]; batches int[]; zeros int[]; counted int; substitute float8;
BEGIN
    SELECT (reward -> 'onFailure' ->> 'value')::float8 INTO substitute FROM batch
        WHERE id = p_batch AND reward -> 'onFailure' ->> 'policy' = 'constant';
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
    -- Whoever still works on it may stop.
    PERFORM pg_notify('rewardops', 'x' || p_batch);
    RETURN counted;
END $$;

-- Completes what a closed batch, or samples that came with a score, have already finished. Called after the
-- change that may have finished it is visible to every flush: a group is completed here or there, never missed.
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

-- Renews a worker's share of a limit, or takes one. Shares are max-min fair over the demands of the unexpired
-- holders, in order of (demand, worker), the remainder to the first: a limit smaller than the number of workers has
-- few owners. A holder keeps what it has in flight, and nobody is given what another still holds, so the sum of
-- unexpired shares never exceeds the limit.
CREATE FUNCTION renew_lease(
    p_resource text, p_worker int, p_demand int, p_in_flight int, p_limit int, p_ttl_ms int
) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    others int; mine int; remaining int := p_limit; n int; give int; share int := 0; granted int; r record;
BEGIN
    PERFORM pg_advisory_xact_lock(72707372, hashtext(p_resource));
    DELETE FROM lease WHERE resource = p_resource AND expires_at < clock_timestamp();
    SELECT coalesce(sum(slots), 0), count(*) + 1 INTO others, n FROM lease
        WHERE resource = p_resource AND worker_id <> p_worker;
    SELECT coalesce(max(slots), 0) INTO mine FROM lease WHERE resource = p_resource AND worker_id = p_worker;
    FOR r IN
        SELECT worker_id, demand FROM lease WHERE resource = p_resource AND worker_id <> p_worker
        UNION ALL SELECT p_worker, p_demand ORDER BY demand, worker_id
    LOOP
        give := least(r.demand, (remaining + n - 1) / n);
        IF r.worker_id = p_worker THEN share := give; END IF;
        remaining := remaining - give;
        n := n - 1;
    END LOOP;
    granted := greatest(0, least(greatest(share, least(p_in_flight, mine)), p_limit - others));
    IF p_demand = 0 AND granted = 0 THEN
        DELETE FROM lease WHERE resource = p_resource AND worker_id = p_worker;
    ELSE
        INSERT INTO lease (resource, worker_id, slots, demand, expires_at)
        VALUES (p_resource, p_worker, granted, p_demand, clock_timestamp() + p_ttl_ms * interval '1 millisecond')
        ON CONFLICT (resource, worker_id) DO UPDATE
        SET slots = excluded.slots, demand = excluded.demand, expires_at = excluded.expires_at;
    END IF;
    RETURN granted;
END $$;

-- Appends samples that were handed over one at a time (samples.score) to the end of an open batch: one round trip where
-- the general append has a dozen. Gives the first index. Raises RW002 with the next index when p_start is not it, RW003 when
-- the batch is closed, RW001 when a group would be too large. Not waited for on disk: these
-- samples are acknowledged by their result, whose commit carries this one along.
CREATE FUNCTION append_singles(
    p_batch int, p_start int, p_uid text[], p_data_source text[], p_response_length int[], p_score float8[],
    p_prompt text[], p_response text[], p_ground_truth text[], p_extra_info text[], p_encoding smallint[],
    p_notify text
) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v batch%ROWTYPE; start int; n int := array_length(p_uid, 1); scored_already int; u record; no_of int; size_of int;
    numbers int[] := '{}'; i int;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(72707371, p_batch);
    SELECT * INTO v FROM batch WHERE id = p_batch;
    IF v.closed THEN RAISE EXCEPTION 'closed' USING ERRCODE = 'RW003'; END IF;
    IF v.samples <> p_start THEN RAISE EXCEPTION '%', v.samples USING ERRCODE = 'RW002'; END IF;
    start := v.samples;
    PERFORM 1 FROM sample_group WHERE batch_id = p_batch AND uid = ANY (p_uid) ORDER BY no FOR UPDATE;
    FOR i IN 1..n LOOP
        UPDATE sample_group SET received = received + 1, ended = ended + (p_score[i] IS NOT NULL)::int
            WHERE batch_id = p_batch AND uid = p_uid[i] RETURNING no, received INTO no_of, size_of;
        IF NOT FOUND THEN
            INSERT INTO sample_group (batch_id, no, uid, received, ended)
            VALUES (p_batch, v.groups, p_uid[i], 1, (p_score[i] IS NOT NULL)::int);
            no_of := v.groups; size_of := 1;
            v.groups := v.groups + 1;
        END IF;
        IF size_of > v.group_size THEN
            RAISE EXCEPTION 'uid "%" has % samples and groupSize is %.', p_uid[i], size_of, v.group_size
                USING ERRCODE = 'RW001';
        END IF;
        numbers := numbers || no_of;
    END LOOP;
    INSERT INTO sample (batch_id, idx, group_no, status, data_source, response_length, score, raw_score, ended_at)
        SELECT p_batch, start + t.ord - 1, t.no, CASE WHEN t.score IS NULL THEN 0 ELSE 2 END, t.data_source, t.length,
               t.score, t.score, CASE WHEN t.score IS NULL THEN NULL ELSE clock_timestamp() END
        FROM unnest(numbers, p_data_source, p_response_length, p_score)
            WITH ORDINALITY AS t(no, data_source, length, score, ord);
    INSERT INTO sample_text (bucket, batch_id, idx, prompt, response, ground_truth, extra_info, encoding)
        SELECT v.text_bucket, p_batch, start + t.ord - 1, t.prompt, t.response, t.truth, t.extra, t.encoding
        FROM unnest(p_prompt, p_response, p_ground_truth, p_extra_info, p_encoding)
            WITH ORDINALITY AS t(prompt, response, truth, extra, encoding, ord);
    scored_already := (SELECT count(*) FROM unnest(p_score) s WHERE s IS NOT NULL);
    UPDATE batch SET samples = samples + n, scored = scored + scored_already, groups = v.groups,
        last_append_at = clock_timestamp() WHERE id = p_batch;
    IF scored_already > 0 THEN PERFORM settle_batch(p_batch); END IF;
    PERFORM pg_notify('rewardops', p_notify);
    RETURN start;
END $$;
