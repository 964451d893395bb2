-- Logins of browsers, so that they can be listed, expire and be ended. Earlier programs do not read this table; their
-- cookies are digests of keys, which this version refuses.
create table login_session (
    id              serial not null,
    hash            bytea not null,
    key_id          integer,
    configured_hash bytea,
    created_at      timestamptz(6) not null default current_timestamp,
    last_used_at    timestamptz(6) not null default current_timestamp,
    address         text not null,
    user_agent      text not null,
    primary key (id),
    check ((key_id is null) <> (configured_hash is null))
);
create unique index login_session_hash_key on login_session (hash);
