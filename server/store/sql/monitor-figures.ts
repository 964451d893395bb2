import type { Client } from '../database.ts'
import { correlationOf, scaled } from './moments.ts'

/**
 * Maximum total size, in bytes, of the texts that are read in full to find a batch's duplicates. A text is read in full
 * if its length and prefix equal those of another text in its group. If the texts have more bytes, the number of
 * duplicates stays null. 256 MiB is the maximum of one submit.
 */
const MAX_COMPARED_BYTES = 268_435_456
/** Number of characters compared first. They are in the row itself, or in the first TOAST chunk of a long text. */
const COMPARED_FIRST = 200

/**
 * Adds the monitors' figures to a batch's roll-up: the correlation of length and score, the number of duplicate
 * responses, and the deviation of scores within groups. The batch's groups must have been rolled up before.
 *
 * Duplicates are found here instead of when samples are accepted, because a hash per response would cost 8 bytes per
 * sample and need code in each of the five places that store samples. Responses are compared in full only if group,
 * length and the first {@link COMPARED_FIRST} characters are equal.
 */
export async function storeMonitorFigures(client: Client, batchId: number): Promise<void> {
  await client.query({
    name: 'store-monitor-figures',
    text: `
      with b as materialized (select id, text_bucket from batch where id = $1 and rescored_from is null),
      -- Combined by grouping, not by a join: two passes over 8,192 rows take 171 ms, 8,192 lookups 294 ms.
      s as materialized (
        select idx, max(group_no) as group_no, max(response_length) as response_length, max(score) as score, max(bytes) as bytes,
               max(head) as head
        from (
          select idx, group_no, response_length, case when status = 2 and not substituted then score end as score,
                 null::int as bytes, null::bigint as head
          from sample where batch_id = (select id from b)
          union all
          select idx, null, null, null, octet_length(response),
                 hashtextextended(substr(response, 1, ${COMPARED_FIRST}), encoding & 10)
          from sample_text where bucket = (select text_bucket from b) and batch_id = $1
        ) both_of group by idx having max(group_no) is not null
      ), counted as materialized (
        -- The length is in tokens if every counted sample has it in tokens, else in bytes of the text.
        select score, case when bool_and(response_length is not null) over () then response_length else bytes end as length,
               bool_and(response_length is not null) over () as in_tokens
        from s where score is not null
      ), lengths as (
        select count(length)::int as n, case when bool_and(in_tokens) then 'tokens' else 'bytes' end as unit,
               ${correlationOf('length::float8', 'score')} as correlation
        from counted
      ), alike as materialized (
        select group_no, idx, bytes, head, members, same from (
          select group_no, idx, bytes, head, count(*) over (partition by group_no) as members,
                 count(*) over (partition by group_no, bytes, head) as same
          from s where bytes is not null) a
        where members > 1
      ), to_compare as materialized (
        select group_no, idx from alike where same > 1
          and (select sum(bytes) from alike where same > 1) <= ${MAX_COMPARED_BYTES}
      ), copies as (
        select coalesce(sum(n), 0)::int as n from (
          select count(*) as n from to_compare c
          join sample_text t on t.bucket = (select text_bucket from b) and t.batch_id = $1 and t.idx = c.idx
          group by c.group_no, md5(t.response), t.encoding & 10 having count(*) > 1) d
      ), comparable as (
        select count(*)::int as n, coalesce(sum(bytes) filter (where same > 1), 0) <= ${MAX_COMPARED_BYTES} as compared from alike
      ), groups as (
        select ${scaled('avg', 'std', 'true')} as std, count(std)::int as n from sample_group
        where batch_id = (select id from b) and scored >= 2 and std < 1e150
      )
      update batch_roll_up r set
        length_n = lengths.n, length_unit = lengths.unit, length_correlation = lengths.correlation,
        duplicates = case when comparable.compared and comparable.n > 0 then copies.n end,
        duplicates_of = case when comparable.compared and comparable.n > 0 then comparable.n end,
        group_std = groups.std, group_std_of = groups.n
      from b, lengths, copies, comparable, groups where r.batch_id = b.id and r.data_source = ''`,
    values: [batchId],
  })
}
