-- AlterTable
ALTER TABLE "pool" ADD COLUMN     "policy" TEXT;

-- AlterTable
ALTER TABLE "server" ADD COLUMN     "awake_until" TIMESTAMPTZ(6),
ADD COLUMN     "can_sleep" BOOLEAN NOT NULL DEFAULT false,
ADD COLUMN     "launch" JSONB,
ADD COLUMN     "max_concurrent" INTEGER,
ADD COLUMN     "route" TEXT,
ADD COLUMN     "rpm" DOUBLE PRECISION,
ADD COLUMN     "self_test" JSONB,
ADD COLUMN     "self_test_override" BOOLEAN NOT NULL DEFAULT false,
ADD COLUMN     "tpm" DOUBLE PRECISION,
ADD COLUMN     "warnings" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- AlterTable
ALTER TABLE "server_event" ADD COLUMN     "evidence" JSONB,
ADD COLUMN     "kind" TEXT NOT NULL DEFAULT 'state';

-- AlterTable
ALTER TABLE "server_minute" ADD COLUMN     "busy" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "client" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "copies" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "corrupt" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "tokens" BIGINT NOT NULL DEFAULT 0;

-- CreateTable
CREATE TABLE "rate_bucket" (
    "resource" TEXT NOT NULL,
    "level" DOUBLE PRECISION NOT NULL,
    "filled_at" TIMESTAMPTZ(6) NOT NULL,

    CONSTRAINT "rate_bucket_pkey" PRIMARY KEY ("resource")
);

-- A share of a limit. A server that is not ready gives nothing but what is in flight: once its leases are gone, nobody may
-- send it anything, which is what putting it to sleep waits for. The state is read under the lock, so who asks after a
-- change of state is told of it.
CREATE OR REPLACE FUNCTION renew_lease(
    p_resource text, p_worker int, p_demand int, p_in_flight int, p_limit int, p_ttl_ms int
) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    others int; mine int; remaining int := p_limit; n int; give int; share int := 0; granted int; r record;
BEGIN
    PERFORM pg_advisory_xact_lock(72707372, hashtext(p_resource));
    IF p_resource LIKE 'server:%' AND EXISTS (
        SELECT 1 FROM server WHERE id = substr(p_resource, 8)::int AND (state <> 'ready' OR removed_at IS NOT NULL)
    ) THEN
        p_demand := 0;
    END IF;
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

-- Takes from a limit a minute, shared by all processes: a bucket that fills at p_per_minute / 60 a second up to p_burst.
-- p_charge is what was used beyond what had been granted (an estimate that was too low; below zero: given back), and may
-- leave a debt; then up to p_want is granted of what is there. Over any time T the grants are at most p_burst + rate x T.
CREATE FUNCTION take_rate(
    p_resource text, p_charge float8, p_want float8, p_per_minute float8, p_burst float8
) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    v rate_bucket%ROWTYPE; now_at timestamptz; granted float8;
BEGIN
    INSERT INTO rate_bucket (resource, level, filled_at) VALUES (p_resource, p_burst, clock_timestamp())
        ON CONFLICT (resource) DO NOTHING;
    SELECT * INTO v FROM rate_bucket WHERE resource = p_resource FOR UPDATE;
    now_at := clock_timestamp();
    v.level := least(p_burst, v.level + greatest(0, extract(epoch FROM now_at - v.filled_at)) * p_per_minute / 60);
    v.level := least(p_burst, v.level - p_charge);
    granted := greatest(0, least(p_want, v.level));
    UPDATE rate_bucket SET level = v.level - granted, filled_at = now_at WHERE resource = p_resource;
    RETURN granted;
END $$;
