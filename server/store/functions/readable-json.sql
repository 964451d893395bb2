-- JSON whose strings Postgres can decode: an escaped NUL and lone halves of surrogate pairs become U+FFFD. What has no escape is
-- given back as it is.
CREATE FUNCTION readable_json(doc json) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN doc::text LIKE '%\\u%' THEN regexp_replace(doc::text,
        '\\u0000|\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}',
        '\\uFFFD', 'g')::json ELSE doc END
$$;
