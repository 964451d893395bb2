-- Failed tool calls in a response of messages. A column without a default, so that no table is rewritten.
alter table "sample" add column "failed_tool_calls" smallint;
