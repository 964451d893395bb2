-- Rewards of the messages and spans of a response. A column without a default, so that no table is rewritten.
alter table "sample" add column "rewards" json;
