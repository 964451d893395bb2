-- Retries and hedges over time, counted where attempts are stored, and server events by time.
create table retry_slice (
    seconds   smallint not null,
    at        timestamptz(6) not null,
    server_id integer not null,
    cause     text not null,
    n         integer not null,
    primary key (seconds, at, server_id, cause)
) with (fillfactor = 50);

alter table attempt add column hedge_of integer;

create index server_event_at_idx on server_event (at);

-- Hours of workers and servers for ranges of more than a day. Latencies of earlier hours are left out, because summing
-- 30 days of them takes minutes.
create table worker_hour (
    worker_id         integer not null,
    at                timestamptz(6) not null,
    scored            integer not null default 0,
    failed            integer not null default 0,
    in_flight_seconds real not null default 0,
    capacity_seconds  real not null default 0,
    loop_p99_ms       real not null default 0,
    primary key (worker_id, at)
) with (fillfactor = 50);
create index worker_hour_at_idx on worker_hour (at);
insert into worker_hour
    select worker_id, date_bin('1 hour', at, 'epoch'), sum(scored), sum(failed), sum(in_flight_seconds), sum(capacity_seconds),
        max(loop_p99_ms)
    from worker_minute group by 1, 2;

create table server_hour (
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
    capacity_seconds  real not null default 0,
    latency_ms        integer[],
    primary key (server_id, at)
) with (fillfactor = 50);
create index server_hour_at_idx on server_hour (at);
insert into server_hour
    select server_id, date_bin('1 hour', minute, 'epoch'), sum(requests), sum(errors), sum(retries), sum(hedges), sum(busy),
        sum(corrupt), sum(client), sum(ejections), sum(in_flight_seconds), sum(capacity_seconds)
    from server_minute where minute > now() - interval '30 days' group by 1, 2;
