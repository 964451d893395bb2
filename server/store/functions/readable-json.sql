-- JSON whose strings Postgres can decode: an escaped NUL and lone surrogates become U+FFFD. JSON without escapes is
-- returned unchanged.
CREATE FUNCTION readable_json(doc json) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN doc::text LIKE '%\\u%' THEN regexp_replace(doc::text,
        '\\u0000|\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}',
        '\\uFFFD', 'g')::json ELSE doc END
$$;
