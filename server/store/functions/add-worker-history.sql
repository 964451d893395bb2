-- Adds results and load to the workers' rows of ten seconds, minutes and hours. `p_rows`: {worker_id, at, scored,
-- failed, in_flight_seconds, capacity_seconds, loop_p99_ms}[]; a missing number is 0, a missing time is now. Flushes
-- call it last, so that a worker's rows are locked only during the commit. All callers lock in the same order.
CREATE FUNCTION add_worker_history(p_rows json) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    INSERT INTO worker_slice AS m (worker_id, at, scored, failed, in_flight_seconds, capacity_seconds, loop_p99_ms)
    SELECT worker_id, date_bin('10 seconds', coalesce(at, now()), 'epoch'), coalesce(sum(scored), 0), coalesce(sum(failed), 0),
           coalesce(sum(in_flight_seconds), 0), coalesce(sum(capacity_seconds), 0), coalesce(max(loop_p99_ms), 0)
    FROM json_to_recordset(p_rows) AS r(worker_id int, at timestamptz, scored int, failed int, in_flight_seconds real,
                                        capacity_seconds real, loop_p99_ms real)
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (worker_id, at) DO UPDATE SET
        scored = m.scored + excluded.scored, failed = m.failed + excluded.failed,
        in_flight_seconds = m.in_flight_seconds + excluded.in_flight_seconds,
        capacity_seconds = m.capacity_seconds + excluded.capacity_seconds,
        loop_p99_ms = greatest(m.loop_p99_ms, excluded.loop_p99_ms);
    INSERT INTO worker_minute AS m (worker_id, at, scored, failed, in_flight_seconds, capacity_seconds, loop_p99_ms)
    SELECT worker_id, date_bin('1 minute', coalesce(at, now()), 'epoch'), coalesce(sum(scored), 0), coalesce(sum(failed), 0),
           coalesce(sum(in_flight_seconds), 0), coalesce(sum(capacity_seconds), 0), coalesce(max(loop_p99_ms), 0)
    FROM json_to_recordset(p_rows) AS r(worker_id int, at timestamptz, scored int, failed int, in_flight_seconds real,
                                        capacity_seconds real, loop_p99_ms real)
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (worker_id, at) DO UPDATE SET
        scored = m.scored + excluded.scored, failed = m.failed + excluded.failed,
        in_flight_seconds = m.in_flight_seconds + excluded.in_flight_seconds,
        capacity_seconds = m.capacity_seconds + excluded.capacity_seconds,
        loop_p99_ms = greatest(m.loop_p99_ms, excluded.loop_p99_ms);
    INSERT INTO worker_hour AS m (worker_id, at, scored, failed, in_flight_seconds, capacity_seconds, loop_p99_ms)
    SELECT worker_id, date_bin('1 hour', coalesce(at, now()), 'epoch'), coalesce(sum(scored), 0), coalesce(sum(failed), 0),
           coalesce(sum(in_flight_seconds), 0), coalesce(sum(capacity_seconds), 0), coalesce(max(loop_p99_ms), 0)
    FROM json_to_recordset(p_rows) AS r(worker_id int, at timestamptz, scored int, failed int, in_flight_seconds real,
                                        capacity_seconds real, loop_p99_ms real)
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (worker_id, at) DO UPDATE SET
        scored = m.scored + excluded.scored, failed = m.failed + excluded.failed,
        in_flight_seconds = m.in_flight_seconds + excluded.in_flight_seconds,
        capacity_seconds = m.capacity_seconds + excluded.capacity_seconds,
        loop_p99_ms = greatest(m.loop_p99_ms, excluded.loop_p99_ms);
END $$;
