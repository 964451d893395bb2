-- What a key may do beyond its role, and the previous value of a replaced key. Earlier programs do not read these columns,
-- so keys with a scope are created only when no earlier program runs.
alter table api_key
    add column access text not null default 'full',
    add column run_prefix text,
    add column previous_hash bytea,
    add column previous_until timestamptz(6);
