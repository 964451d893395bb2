-- The trace context of a batch, whether its spans are to be exported after its end, and the number of each call of a
-- traced sample, from which the ids of its spans follow.
alter table batch
    add column trace jsonb,
    add column trace_due boolean;
alter table attempt add column call_no smallint;
create index batch_to_trace on batch (id) where trace_due;
