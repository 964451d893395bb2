-- Lists read the prompts of a run in their physical order. With a plain index, a table without statistics was read in
-- whole for each looked-up key; an index on an expression serves the lists alone.
create index "prompt_list_idx" on "prompt" (("run_id"::bigint), "split");
drop index "prompt_run_id_split_idx";
