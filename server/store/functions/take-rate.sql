-- Takes from a limit per minute that all processes share: a bucket that fills at p_per_minute / 60 per second up to
-- p_burst. p_charge corrects earlier grants: if positive, it is use beyond them, which may leave a debt, and if
-- negative, it is their unused part. Then up to p_want is granted from the bucket. Over any time T, grants are at most
-- p_burst + rate x T.
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
