-- The fleet over time: ten-second rows for a day, minutes for thirty days. New tables and columns with constant defaults,
-- so that no table is rewritten.
create table worker_slice (
    worker_id         integer not null,
    at                timestamptz(6) not null,
    scored            integer not null default 0,
    failed            integer not null default 0,
    in_flight_seconds real not null default 0,
    capacity_seconds  real not null default 0,
    loop_p99_ms       real not null default 0,
    primary key (worker_id, at)
) with (fillfactor = 50);
create index worker_slice_at_idx on worker_slice (at);

create table worker_minute (
    worker_id         integer not null,
    at                timestamptz(6) not null,
    scored            integer not null default 0,
    failed            integer not null default 0,
    in_flight_seconds real not null default 0,
    capacity_seconds  real not null default 0,
    loop_p99_ms       real not null default 0,
    primary key (worker_id, at)
) with (fillfactor = 50);
create index worker_minute_at_idx on worker_minute (at);

create table server_slice (
    server_id         integer not null,
    at                timestamptz(6) not null,
    requests          integer not null default 0,
    errors            integer not null default 0,
    retries           integer not null default 0,
    hedges            integer not null default 0,
    busy              integer not null default 0,
    corrupt           integer not null default 0,
    client            integer not null default 0,
    ejections         integer not null default 0,
    in_flight_seconds real not null default 0,
    capacity_seconds      real not null default 0,
    latency_ms        integer[],
    primary key (server_id, at)
) with (fillfactor = 50);
create index server_slice_at_idx on server_slice (at);

alter table server_minute
    add column ejections integer not null default 0,
    add column in_flight_seconds real not null default 0,
    add column capacity_seconds real not null default 0;

create table latency_slice (
    kind    text not null,
    seconds smallint not null,
    at      timestamptz(6) not null,
    counts  integer[] not null,
    primary key (kind, seconds, at)
) with (fillfactor = 50);
