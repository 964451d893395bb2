-- Applies the batch's failure policy to completed groups with failed members. These groups have no pending samples, so
-- no other transaction locks them. With group_mean, failed members get the mean of the scored ones, or no score if
-- there are none. With drop_group, no member keeps a score. The mean is computed from scaled scores. Without scaling,
-- sums and squares of large scores could overflow, and squares of tiny scores could underflow. Postgres would raise an
-- error, and the results of the group could never be written. Scaling by a power of two does not round.
CREATE FUNCTION apply_failure_policy(p_batch int, p_policy text, p_groups int[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    hurt int[];
BEGIN
    SELECT array_agg(no) INTO hurt FROM sample_group
        WHERE batch_id = p_batch AND no = ANY (p_groups) AND failed > 0;
    IF hurt IS NULL THEN RETURN; END IF;
    IF p_policy = 'group_mean' THEN
        UPDATE sample s SET score = m.mean, substituted = true
        FROM (SELECT group_no, CASE WHEN min(score) = max(score) THEN min(score) ELSE
                  sum(CASE WHEN abs(score) > 1e-290 THEN score / 16777216 ELSE 0 END) / count(*) * 16777216 END AS mean
              FROM sample WHERE batch_id = p_batch AND group_no = ANY (hurt) AND status = 2 GROUP BY group_no) m
        WHERE s.batch_id = p_batch AND s.group_no = m.group_no AND s.status = 3 AND s.score IS NULL;
    ELSE
        UPDATE sample SET score = NULL, substituted = true
        WHERE batch_id = p_batch AND group_no = ANY (hurt) AND status = 2;
    END IF;
END $$;
