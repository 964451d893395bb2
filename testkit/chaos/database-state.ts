export const ENDED_SAMPLES = `select coalesce(sum(scored + failed), 0)::int as ended,
    coalesce(sum(samples - scored - failed), 0)::int as open from batch`

export const DATABASE_STATE = `
with rows as (
  select batch_id, count(*) filter (where status < 2) as pending, count(*) filter (where status = 2) as scored,
         count(*) filter (where status = 3) as failed
  from sample group by batch_id
), members as (
  select batch_id, group_no, count(*) as received, count(*) filter (where status >= 2) as ended
  from sample group by batch_id, group_no
), wrong as (
  select g.batch_id, count(*) as n
  from sample_group g left join members m on m.batch_id = g.batch_id and m.group_no = g.no
  where g.received is distinct from m.received or g.ended is distinct from m.ended
  group by g.batch_id
)
select json_build_object(
  'batches', (select coalesce(json_agg(json_build_object(
      'id', b.id, 'key', b.idempotency_key, 'run', run.name, 'status', b.status, 'samples', b.samples,
      'scored', b.scored, 'failed', b.failed, 'groups', b.groups, 'groupsCompleted', b.groups_completed,
      'pendingRows', coalesce(r.pending, 0), 'scoredRows', coalesce(r.scored, 0), 'failedRows', coalesce(r.failed, 0),
      'wrongGroups', coalesce(w.n, 0)) order by b.id), '[]')
    from batch b join run on run.id = b.run_id left join rows r on r.batch_id = b.id left join wrong w on w.batch_id = b.id),
  'leases', (select count(*) from lease where slots > 0 and expires_at > clock_timestamp()),
  'claims', (select count(*) from claim),
  'activeJobs', (select count(*) from pgboss.job where state = 'active'),
  'waitingJobs', (select count(*) from pgboss.job where state in ('created', 'retry')),
  'inFlight', (select coalesce(sum((stats ->> 'inFlight')::int + (stats ->> 'inUse')::int
      + (select coalesce(sum((s.value ->> 'inFlight')::int), 0) from json_each((stats -> 'servers')::json) s)), 0)
    from process where role = 'worker' and state = 'alive' and last_seen_at > now() - interval '3 seconds' and stats ? 'inFlight'),
  'hedges', (select coalesce(sum(hedges), 0) from server_minute)
) as state`
