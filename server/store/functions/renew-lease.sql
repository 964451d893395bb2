-- Renews a process's share of a limit, or creates one. Shares are max-min fair over the demands of the unexpired
-- holders, in order of (demand, process). If slots do not divide evenly, the first holders get one more. A holder keeps
-- the slots of its calls in flight. No process gets slots that another one holds, or may still use after its share
-- expired, so the shares never exceed the limit. For a server that is not ready, a process keeps only the slots of its
-- calls in flight. Once all shares are gone, no process may call the server, and it may be put to sleep. A process that
-- was declared dead keeps only the slots of its calls in flight until it has reported again, because its jobs were
-- requeued and it has to give them up first.
CREATE FUNCTION renew_lease(
    p_resource text, p_process int, p_demand int, p_in_flight int, p_limit int, p_ttl_ms int, p_grace_ms int DEFAULT 0
) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    others int; lapsed int; mine int; remaining int; n int; give int; share int := 0; granted int; r record;
BEGIN
    PERFORM pg_advisory_xact_lock(72707372, hashtext(p_resource));
    IF p_resource LIKE 'server:%' AND EXISTS (
        SELECT 1 FROM server WHERE id = substr(p_resource, 8)::int AND (state <> 'ready' OR removed_at IS NOT NULL)
    ) THEN
        p_demand := 0;
    END IF;
    IF EXISTS (SELECT 1 FROM process WHERE id = p_process AND state = 'dead') THEN
        p_demand := 0;
    END IF;
    DELETE FROM lease WHERE resource = p_resource
        AND expires_at + grace_ms * interval '1 millisecond' < clock_timestamp();
    SELECT coalesce(sum(slots), 0), coalesce(sum(slots) FILTER (WHERE expires_at < clock_timestamp()), 0),
           count(*) FILTER (WHERE expires_at >= clock_timestamp()) + 1
        INTO others, lapsed, n FROM lease WHERE resource = p_resource AND worker_id <> p_process;
    SELECT coalesce(max(slots), 0) INTO mine FROM lease WHERE resource = p_resource AND worker_id = p_process;
    remaining := greatest(0, p_limit - lapsed);
    FOR r IN
        SELECT worker_id, demand FROM lease
            WHERE resource = p_resource AND worker_id <> p_process AND expires_at >= clock_timestamp()
        UNION ALL SELECT p_process, p_demand ORDER BY demand, worker_id
    LOOP
        give := least(r.demand, (remaining + n - 1) / greatest(n, 1));
        IF r.worker_id = p_process THEN share := give; END IF;
        remaining := remaining - give;
        n := n - 1;
    END LOOP;
    granted := greatest(0, least(greatest(share, least(p_in_flight, mine)), p_limit - others));
    -- A grant of new slots waits for the disk, because after a crash other processes could get the same slots. A
    -- renewal or return of slots does not wait.
    IF granted <= mine THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
    IF p_demand = 0 AND granted = 0 THEN
        DELETE FROM lease WHERE resource = p_resource AND worker_id = p_process;
    ELSE
        INSERT INTO lease (resource, worker_id, slots, demand, expires_at, grace_ms)
        VALUES (p_resource, p_process, granted, p_demand, clock_timestamp() + p_ttl_ms * interval '1 millisecond', p_grace_ms)
        ON CONFLICT (resource, worker_id) DO UPDATE
        SET slots = excluded.slots, demand = excluded.demand, expires_at = excluded.expires_at,
            grace_ms = excluded.grace_ms;
    END IF;
    RETURN granted;
END $$;
