-- Prompts over steps. A new table, and columns without a default, so that no table is rewritten.
alter table "sample" add column "prompt_id" text;
alter table "batch" add column "group_passes" jsonb;

create table "prompt" (
    "run_id"        integer not null,
    "split"         text not null,
    "key"           bytea not null,
    "prompt_id"     text,
    "data_source"   text not null,
    "preview"       text not null,
    "class"         text not null default 'mixed',
    "scored"        integer not null default 0,
    "passed"        integer,
    "mean"          double precision,
    "recent_scored" integer not null default 0,
    "recent_passed" integer,
    "recent_mean"   double precision,
    "change"        double precision,
    "varied"        integer not null default 0,
    "visits"        integer not null default 0,
    "last_step"     integer not null default 0,
    "history"       bytea not null,
    primary key ("run_id", "split", "key")
) with (fillfactor = 80);
create index "prompt_run_id_split_idx" on "prompt" ("run_id", "split");
