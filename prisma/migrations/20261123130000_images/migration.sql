-- Images of messages, each stored once, and the batches whose texts refer to them. Only new tables.
create table "image" (
    "sha256" bytea not null,
    "bytes"  bytea not null,
    primary key ("sha256")
);
-- Images are compressed already.
alter table "image" alter column "bytes" set storage external;

create table "batch_image" (
    "batch_id" integer not null,
    "sha256"   bytea not null,
    primary key ("batch_id", "sha256")
);
create index "batch_image_sha256_idx" on "batch_image" ("sha256");
