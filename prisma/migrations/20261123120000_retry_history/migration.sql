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
