-- A run's configuration and tags, and its figures for pages over many runs. New tables, and columns that are null or have
-- a constant default, so that no table is rewritten.
alter table run
    add column config json,
    add column config_values jsonb,
    add column tags text[] default '{}';

alter table batch add column in_run_roll_up boolean not null default false;
-- Queue of the batches that their run's roll-up does not include: small, however many batches there are.
create index batch_to_run_roll_up on batch (run_id) where not in_run_roll_up;

-- Fillfactor 50 leaves room for heap-only updates: every ended batch updates the row of its run.
create table run_roll_up (
    run_id             integer not null,
    split              text not null,
    batches            integer not null,
    validation_batches integer not null,
    rescored_batches   integer not null,
    last_batch_id      integer not null,
    last_at            timestamptz(6) not null,
    ended_at           timestamptz(6) not null,
    last_step          integer,
    samples            double precision not null,
    failed             double precision not null,
    groups             integer not null,
    no_signal          integer not null,
    mean               double precision,
    best_mean          double precision,
    best_step          integer,
    change             double precision,
    change_error       double precision,
    change_steps       integer not null,
    curve_steps        integer[],
    curve_means        double precision[],
    reward_name        text not null,
    reward_hash        text not null,
    stale              boolean not null default false,
    updated_at         timestamptz(6) not null default current_timestamp,
    primary key (run_id)
) with (fillfactor = 50);
create index run_roll_up_stale on run_roll_up (run_id) where stale;
