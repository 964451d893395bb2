-- What led to each score, and the prompt that the groups of several steps share. Columns without a default, so that no
-- table is rewritten.
alter table "sample" add column "verdict" text, add column "extracted" text;
alter table "sample_group" add column "prompt_key" bytea;
alter table "batch_roll_up" add column "verdicts" jsonb, add column "mean_error" double precision;
