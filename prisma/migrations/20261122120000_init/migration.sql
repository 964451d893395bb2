-- The tables of rewardops. prisma/schema.prisma says what each column means; this file adds what Prisma cannot
-- express (partitions, checks, storage parameters, partial indexes) and why. SQL functions are in
-- server/store/functions.
--
-- There are no foreign keys: one code path writes each table, and checking them costs a third of an insert.

-- Runs and batches ----------------------------------------------------------------------------------------------------

create table run (
    id          serial primary key,
    name        text not null,
    created_at  timestamptz(6) not null default current_timestamp,
    seeded      boolean not null default false
);
create unique index run_name_key on run (name);

-- Every flush of results updates the batch's counters. Fillfactor 20 leaves room in the page for the new row versions,
-- so that these updates touch no index (heap-only tuples).
create table batch (
    id                 serial primary key,
    run_id             integer not null,
    step               integer not null,
    split              text not null,
    status             text not null,
    closed             boolean not null default false,
    group_size         integer,
    reward             jsonb not null,
    reward_name        text not null,
    priority           integer not null default 0,
    samples            integer not null default 0,
    scored             integer not null default 0,
    failed             integer not null default 0,
    groups             integer not null default 0,
    groups_completed   integer not null default 0,
    retries            integer not null default 0,
    submitted_at       timestamptz(6) not null default current_timestamp,
    started_at         timestamptz(6),
    completed_at       timestamptz(6),
    deadline_at        timestamptz(6),
    last_append_at     timestamptz(6) not null default current_timestamp,
    implicit_key       text,
    idempotency_key    text,
    content_hash       bytea,
    text_bucket        date not null,
    mean               double precision,
    std                double precision,
    min                double precision,
    max                double precision,
    group_signals      jsonb,
    rescored_from      integer,
    rolled_up          boolean not null default false,
    samples_removed_at timestamptz(6),
    texts_removed_at   timestamptz(6),
    monitored          boolean not null default false,
    constraint batch_status_check check (status in ('open', 'running', 'completed', 'cancelled', 'failed')),
    constraint batch_counts_check check (
        scored >= 0 and failed >= 0 and scored + failed <= samples
        and groups_completed >= 0 and groups_completed <= groups)
) with (fillfactor = 20);
create unique index batch_idempotency_key_key on batch (idempotency_key);
create index batch_run_id_id_idx on batch (run_id, id);
create index batch_status_idx on batch (status);
create index batch_rescored_from_idx on batch (rescored_from);
create index batch_text_bucket_idx on batch (text_bucket);
-- Allows one open implicit batch per key.
create unique index batch_implicit_open on batch (implicit_key) where implicit_key is not null and not closed;
-- Each submit of a run that has limits counts the run's unfinished batches.
create index batch_under_way on batch (run_id) where status in ('open', 'running');
-- Queues of ended batches that wait for their roll-up and for the monitors: small, however many batches there are.
create index batch_to_roll_up on batch (id) where not rolled_up;
create index batch_to_monitor on batch (id) where not monitored;

create table batch_roll_up (
    batch_id           integer not null,
    data_source        text not null,
    samples            integer not null,
    scored             integer not null,
    failed             integer not null,
    substituted        integer not null,
    mean               double precision,
    std                double precision,
    min                double precision,
    max                double precision,
    quantiles          double precision[],
    bin_values         double precision[],
    bin_counts         integer[],
    queue_ms           real[],
    score_ms           real[],
    reasons            jsonb not null default '{}',
    components         jsonb,
    duplicates         integer,
    duplicates_of      integer,
    group_std          double precision,
    group_std_of       integer,
    length_correlation double precision,
    length_n           integer,
    length_unit        text,
    primary key (batch_id, data_source)
);

create table batch_extra_key (
    batch_id integer not null,
    key      text not null,
    samples  integer not null,
    numbers  integer not null,
    booleans integer not null,
    texts    integer not null,
    min      double precision,
    max      double precision,
    values   jsonb,
    primary key (batch_id, key)
);

-- Groups, samples, texts ----------------------------------------------------------------------------------------------

-- Each flush updates the groups of its samples. Fillfactor 50 leaves room for heap-only updates.
create table sample_group (
    batch_id     integer not null,
    no           integer not null,
    uid          text not null,
    received     integer not null,
    ended        integer not null default 0,
    failed       integer not null default 0,
    seq          integer,
    completed_at timestamptz(6),
    advantages   double precision[],
    max          double precision,
    mean         double precision,
    min          double precision,
    post_queued  boolean not null default false,
    scored       integer,
    signal       text,
    std          double precision,
    substituted  integer,
    primary key (batch_id, no),
    constraint sample_group_counts_check check (ended >= 0 and ended <= received)
) with (fillfactor = 50);
-- The uid is first. An index that begins with batch_id, like the primary key, was chosen for look-ups by number while
-- the table had no statistics, and each look-up then read all groups of the batch.
create unique index sample_group_uid_batch_id_key on sample_group (uid, batch_id);

-- The result of a sample is an update of its row. Fillfactor 50 leaves room for it in the same page.
create table sample (
    batch_id        integer not null,
    idx             integer not null,
    group_no        integer not null,
    status          smallint not null default 0,
    attempts        smallint not null default 0,
    data_source     text not null,
    response_length integer,
    score           double precision,
    raw_score       double precision,
    reason          text,
    substituted     boolean not null default false,
    reward_extra    json,
    queue_ms        real,
    score_ms        real,
    server_id       integer,
    worker_id       integer,
    dispatched_at   timestamptz(6),
    ended_at        timestamptz(6),
    staged_score    double precision,
    primary key (batch_id, idx),
    -- A failure never reads as a score. A scored sample (2) lacks a score only where a failure policy took it away;
    -- a failed sample (3) has a score only where a failure policy put it there.
    constraint sample_outcome_check check (case status
        when 2 then (score is not null or substituted) and reason is null
        when 3 then reason is not null and (score is null or substituted)
        else score is null and reason is null end)
) with (fillfactor = 50);

-- One partition per day, so that retention drops a table instead of deleting rows; server/store/text-partitions.ts
-- creates them. External storage keeps texts uncompressed, and the partitions keep them inline up to 8 kB: a rollout
-- of 3 kB costs one heap tuple instead of compression, or a TOAST tuple and its index entry for each column.
create table sample_text (
    bucket       date not null,
    batch_id     integer not null,
    idx          integer not null,
    prompt       text not null,
    response     text not null,
    ground_truth text,
    extra_info   text,
    encoding     smallint not null default 0,
    primary key (bucket, batch_id, idx)
) partition by range (bucket);
alter table sample_text
    alter column prompt set storage external,
    alter column response set storage external,
    alter column ground_truth set storage external,
    alter column extra_info set storage external;

create table attempt (
    id          bigserial primary key,
    batch_id    integer not null,
    idx         integer not null,
    attempt     smallint not null,
    server_id   integer,
    worker_id   integer not null,
    started_at  timestamptz(6) not null,
    queue_ms    real not null,
    backoff_ms  real not null,
    service_ms  real not null,
    outcome     text not null,
    reason      text,
    status_code smallint,
    detail      text
);
create index attempt_batch_id_idx_idx on attempt (batch_id, idx);
create index attempt_started_at_idx on attempt (started_at);

create table score_key (
    key          text primary key,
    batch_id     integer not null,
    idx          integer not null,
    content_hash bytea not null
);
create index score_key_batch_id_idx on score_key (batch_id);

create table sample_annotation (
    id         bigserial primary key,
    batch_id   integer not null,
    idx        integer not null,
    label      text not null,
    note       text,
    author     text not null,
    created_at timestamptz(6) not null default current_timestamp,
    updated_at timestamptz(6)
);
create index sample_annotation_batch_id_idx_idx on sample_annotation (batch_id, idx);
create index sample_annotation_label_batch_id_idx_idx on sample_annotation (label, batch_id, idx);

create table rescore_copy (
    batch_id    integer primary key,
    text_bucket date not null,
    started_at  timestamptz(6) not null default current_timestamp,
    from_id     integer
);

create table rescore_part (
    batch_id integer primary key,
    from_idx integer[]
);

-- Servers, pools, reward functions ------------------------------------------------------------------------------------

create table server (
    id                 serial primary key,
    name               text not null,
    url                text not null,
    engine             text not null,
    kind               text not null,
    model              text not null,
    weight             double precision not null default 1,
    max_in_flight      integer,
    api_key            text,
    tags               text[],
    version            text,
    max_model_len      integer,
    state              text not null,
    state_cause        text,
    state_since        timestamptz(6) not null default current_timestamp,
    last_probe_at      timestamptz(6),
    registered_at      timestamptz(6) not null default current_timestamp,
    removed_at         timestamptz(6),
    requests           bigint not null default 0,
    errors             bigint not null default 0,
    retries            bigint not null default 0,
    awake_until        timestamptz(6),
    can_sleep          boolean not null default false,
    launch             jsonb,
    max_concurrent     integer,
    route              text,
    rpm                double precision,
    self_test          jsonb,
    self_test_override boolean not null default false,
    tpm                double precision,
    warnings           text[] default array[]::text[],
    chat_template      text,
    label              text,
    named_route        text,
    plain_text         boolean not null default false
);
create unique index server_name_key on server (name);
create index server_model_idx on server (model);

create table server_event (
    id        serial primary key,
    server_id integer not null,
    "from"    text,
    "to"      text not null,
    cause     text not null,
    at        timestamptz(6) not null default current_timestamp,
    evidence  jsonb,
    kind      text not null default 'state'
);
create index server_event_server_id_id_idx on server_event (server_id, id);

create table server_minute (
    server_id  integer not null,
    minute     timestamptz(6) not null,
    requests   integer not null,
    errors     integer not null,
    retries    integer not null,
    latency_ms integer[],
    busy       integer not null default 0,
    client     integer not null default 0,
    hedges     integer not null default 0,
    corrupt    integer not null default 0,
    tokens     bigint not null default 0,
    primary key (server_id, minute)
);

create table pool (
    name       text primary key,
    model      text,
    created_at timestamptz(6) not null default current_timestamp,
    policy     text
);
create unique index pool_model_key on pool (model);

create table function_source (
    hash       text primary key,
    path       text not null,
    files      json not null,
    created_at timestamptz(6) not null default current_timestamp
);

-- Processes and what they hold ----------------------------------------------------------------------------------------

-- Each process updates its row once a second. Fillfactor 20 leaves room for heap-only updates.
create table process (
    id           serial primary key,
    host         text not null,
    pid          integer not null,
    local        boolean not null,
    state        text not null,
    started_at   timestamptz(6) not null default current_timestamp,
    last_seen_at timestamptz(6) not null default current_timestamp,
    ended_at     timestamptz(6),
    requeued     integer not null default 0,
    stats        jsonb not null default '{}',
    role         text not null,
    version      integer not null default 0,
    functions    text
) with (fillfactor = 20);
create index process_state_idx on process (state);

create table claim (
    job_id     uuid primary key,
    queue      text not null,
    worker_id  integer not null,
    batch_id   integer not null,
    first_idx  integer not null,
    last_idx   integer not null,
    samples    integer not null,
    claimed_at timestamptz(6) not null default current_timestamp
);
create index claim_worker_id_idx on claim (worker_id);
create index claim_batch_id_idx on claim (batch_id);

create table lease (
    resource   text not null,
    worker_id  integer not null,
    slots      integer not null,
    demand     integer not null,
    expires_at timestamptz(6) not null,
    grace_ms   integer not null default 0,
    primary key (resource, worker_id)
);

create table rate_bucket (
    resource  text primary key,
    level     double precision not null,
    filled_at timestamptz(6) not null
);

create table call_limiter (
    name    text primary key,
    limits  jsonb not null,
    used_at timestamptz(6) not null
);

create table background_turn (
    kind       text primary key,
    process_id integer not null,
    until      timestamptz(6) not null
);

create table schema_version (
    version         integer primary key,
    compatible_from integer not null,
    installed_at    timestamptz(6) not null default current_timestamp
);

-- Monitors and alerts -------------------------------------------------------------------------------------------------

create table monitor_evaluation (
    batch_id integer primary key,
    run_id   integer not null,
    split    text not null,
    step     integer not null,
    at       timestamptz(6) not null default current_timestamp,
    values   jsonb not null
);
create index monitor_evaluation_run_id_split_batch_id_idx on monitor_evaluation (run_id, split, batch_id);

create table monitor_standing (
    run_id   integer not null,
    split    text not null,
    step     integer not null,
    batch_id integer not null,
    at       timestamptz(6) not null,
    monitors jsonb not null,
    primary key (run_id, split)
);
create index monitor_standing_batch_id_idx on monitor_standing (batch_id);

create table monitor_incident (
    id           serial primary key,
    monitor      text not null,
    run_id       integer,
    split        text,
    subject      text,
    severity     text not null,
    opened_at    timestamptz(6) not null default current_timestamp,
    opened_step  integer,
    opened_batch integer,
    value        double precision,
    threshold    double precision,
    worst        double precision,
    worst_step   integer,
    detail       text,
    closed_at    timestamptz(6),
    closed_step  integer,
    closed_batch integer,
    closed_value double precision
);
create index monitor_incident_run_id_id_idx on monitor_incident (run_id, id);
-- Allows one open incident per monitor and subject, whichever server opens it. Nulls differ from each other in an
-- index, so they are replaced.
create unique index monitor_incident_open
    on monitor_incident (monitor, coalesce(run_id, 0), coalesce(split, ''), coalesce(subject, ''))
    where closed_at is null;

create table monitor_setting (
    run_id     integer not null,
    monitor    text not null,
    enabled    boolean,
    warning    double precision,
    alerting   double precision,
    open_after integer,
    changed_by text not null,
    changed_at timestamptz(6) not null default current_timestamp,
    primary key (run_id, monitor)
);

create table webhook (
    id         serial primary key,
    name       text not null,
    url        text not null,
    secret     text,
    severities text[],
    monitors   text[],
    runs       text[],
    fleet      boolean not null default true,
    enabled    boolean not null default true,
    created_at timestamptz(6) not null default current_timestamp,
    created_by text not null
);
create unique index webhook_name_key on webhook (name);

create table alert_event (
    id          uuid primary key,
    incident_id integer,
    kind        text not null,
    payload     jsonb not null,
    at          timestamptz(6) not null default current_timestamp
);
create index alert_event_at_idx on alert_event (at);

create table alert_delivery (
    id              serial primary key,
    webhook_id      integer not null,
    event_id        uuid not null,
    state           text not null,
    attempts        integer not null default 0,
    next_attempt_at timestamptz(6) default current_timestamp,
    last_attempt_at timestamptz(6),
    status          integer,
    latency_ms      real,
    error           text,
    created_at      timestamptz(6) not null default current_timestamp
);
create unique index alert_delivery_event_id_webhook_id_key on alert_delivery (event_id, webhook_id);
create index alert_delivery_webhook_id_id_idx on alert_delivery (webhook_id, id);
-- The queue of deliveries that are still to be sent.
create index alert_delivery_waiting on alert_delivery (next_attempt_at) where state = 'waiting';

-- Access, settings, retention -----------------------------------------------------------------------------------------

create table api_key (
    id           serial primary key,
    name         text not null,
    role         text not null,
    hash         bytea not null,
    session_hash bytea not null,
    prefix       text not null,
    created_at   timestamptz(6) not null default current_timestamp,
    created_by   text not null,
    expires_at   timestamptz(6),
    last_used_at timestamptz(6),
    revoked_at   timestamptz(6),
    revoked_by   text
);
create unique index api_key_hash_key on api_key (hash);
create unique index api_key_session_hash_key on api_key (session_hash);
-- A name identifies one key until that key is revoked, and is then free again.
create unique index api_key_name_living on api_key (name) where revoked_at is null;

create table audit_event (
    id      bigserial primary key,
    at      timestamptz(6) not null default current_timestamp,
    actor   text not null,
    role    text not null,
    action  text not null,
    target  text not null,
    changes jsonb not null default '[]'
);
create index audit_event_actor_id_idx on audit_event (actor, id);
create index audit_event_action_id_idx on audit_event (action, id);

create table setting (
    name       text primary key,
    value      jsonb not null,
    changed_at timestamptz(6) not null default current_timestamp,
    changed_by text not null
);

create table run_limit (
    run                text primary key,
    max_queued_samples integer,
    max_open_batches   integer,
    max_priority       integer,
    changed_at         timestamptz(6) not null default current_timestamp,
    changed_by         text not null
);

create table run_kept (
    run     text primary key,
    kept_at timestamptz(6) not null default current_timestamp,
    kept_by text not null
);

create table retention_job (
    id            serial primary key,
    kind          text not null,
    run           text,
    last_batch_id integer,
    state         text not null,
    requested_by  text not null,
    policy        jsonb,
    progress      jsonb not null default '{}',
    problem       text,
    created_at    timestamptz(6) not null default current_timestamp,
    ended_at      timestamptz(6)
);
-- Allows one running removal, whichever server runs it.
create unique index retention_job_running on retention_job (state) where state = 'running';

create table removal (
    batch_id      integer primary key,
    job_id        integer not null,
    text_bucket   date not null,
    whole         boolean not null,
    keep_roll_ups boolean not null,
    begun         boolean not null default false
);
create index removal_text_bucket_idx on removal (text_bucket);

-- Pages ---------------------------------------------------------------------------------------------------------------

create table run_mark (
    id     serial primary key,
    run_id integer not null,
    step   integer not null,
    label  text not null,
    note   text not null default '',
    author text not null,
    at     timestamptz(6) not null default current_timestamp
);
create index run_mark_run_id_step_idx on run_mark (run_id, step);

create table saved_view (
    id         serial primary key,
    page       text not null,
    name       text not null,
    state      text not null,
    version    integer not null,
    author     text not null,
    created_at timestamptz(6) not null default current_timestamp,
    updated_at timestamptz(6) not null default current_timestamp
);
create unique index saved_view_page_name_key on saved_view (page, name);
