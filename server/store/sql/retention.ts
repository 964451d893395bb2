import type { RemovedDto, RetentionPolicy } from '../../contract/retention.ts'
import { ADVISORY_LOCKS } from '../advisory-locks.ts'
import { notify } from '../channels.ts'
import type { Client, Database } from '../database.ts'
import { textPartition } from '../text-partitions.ts'
import { releaseImages } from './images.ts'
import { removeGoneVisits, removeVisits } from './prompts.ts'
import { markRunRollUpStale } from './run-roll-ups.ts'

/** Maximum number of batches that one transaction marks for removal. A rescore may wait for one such transaction. */
const MARK_BATCHES = 500
/**
 * Maximum number of rows that one statement deletes. A statement takes about 20 ms for samples and 40 ms for texts of
 * 3 kB.
 */
const MAX_DELETE_ROWS = 2_048

export interface RetentionJobRow {
  id: number
  kind: 'policy' | 'run'
  run: string | null
  last_batch_id: number | null
  state: 'running' | 'done' | 'cancelled'
  requested_by: string
  policy: RetentionPolicy | null
  progress: JobProgress
  problem: string | null
  created_at: Date
  ended_at: Date | null
}

export type JobProgress = Partial<RemovedDto> & {
  expected?: { batches: number; samples: number }
}

const JOB = `id, kind, run, last_batch_id, state, requested_by, policy, progress, problem, created_at, ended_at`

/** SQL condition: the batch has ended and has roll-ups, so no process writes to the batch any more. */
const ENDED = `(b.status in ('completed', 'cancelled', 'failed') and b.completed_at is not null and b.rolled_up)`
const KEPT = `exists (select 1 from run_kept k join run r on r.name = k.run where r.id = b.run_id)`
const COPIED = `exists (select 1 from rescore_copy c where c.from_id = b.id)`
/** SQL conditions of the age policy: batches are kept for $1 days, and their texts for $2 days. */
const OLD = `coalesce(b.submitted_at < now() - $1::int * interval '1 day', false)`
const OLD_TEXTS = `coalesce(b.submitted_at < now() - $2::int * interval '1 day', false)`

/** Stores a new removal as running. Returns undefined if another removal is already running. */
export async function beginJob(
  db: Database,
  job: Pick<
    RetentionJobRow,
    'kind' | 'run' | 'last_batch_id' | 'requested_by' | 'policy' | 'progress'
  >,
): Promise<RetentionJobRow | undefined> {
  const [row] = await db.adhoc<RetentionJobRow>(
    `insert into retention_job (kind, run, last_batch_id, state, requested_by, policy, progress)
     values ($1, $2, $3, 'running', $4, $5::jsonb, $6::jsonb) on conflict do nothing returning ${JOB}`,
    [
      job.kind,
      job.run,
      job.last_batch_id,
      job.requested_by,
      JSON.stringify(job.policy),
      JSON.stringify(job.progress),
    ],
  )
  return row
}

export function newestJobs(db: Database, limit: number): Promise<RetentionJobRow[]> {
  return db.rows('removals-newest', `select ${JOB} from retention_job order by id desc limit $1`, [
    limit,
  ])
}

export async function jobById(db: Database, id: number): Promise<RetentionJobRow | undefined> {
  const [row] = await db.adhoc<RetentionJobRow>(`select ${JOB} from retention_job where id = $1`, [
    id,
  ])
  return row
}

/** Whether a removal is running, or a cancelled removal has left batches that it began to remove. */
export async function hasPendingRemoval(db: Database): Promise<boolean> {
  const [row] = await db.rows<{ any: boolean }>(
    'removal-any',
    `select exists (select 1 from retention_job where state = 'running') or exists (select 1 from removal) as any`,
  )
  return row!.any
}

/** Returns and locks the running removal. Until the transaction ends, no call can cancel it or start another one. */
export async function runningJob(client: Client): Promise<RetentionJobRow | undefined> {
  const { rows } = await client.query<RetentionJobRow>(
    `select ${JOB} from retention_job where state = 'running' for no key update`,
  )
  return rows[0]
}

/** Stores the error of a removal's last transaction, or null if it succeeded. */
export async function noteProblem(db: Database, id: number, problem: string | null): Promise<void> {
  await db.adhoc('update retention_job set problem = $2 where id = $1', [id, problem])
}

/**
 * Prevents other processes from removing data until the transaction ends. Returns false if another process holds the
 * lock.
 */
export async function lockRemover(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ mine: boolean }>(
    'select pg_try_advisory_xact_lock($1) as mine',
    [ADVISORY_LOCKS.removal],
  )
  return rows[0]!.mine
}

/** Marks some batches for removal. Returns false if no batch is left to mark. */
export async function markPiece(client: Client, job: RetentionJobRow): Promise<boolean> {
  await client.query('select pg_advisory_xact_lock($1)', [ADVISORY_LOCKS.retentionMarks])
  const stays = `not ${COPIED} and not exists (select 1 from removal m where m.batch_id = b.id)`
  const { rows } =
    job.kind === 'run'
      ? await client.query<MarkedRow>(
          `select b.id, b.samples, true as whole from batch b
           where b.run_id = (select id from run where name = $1) and b.id <= $2 and ${stays}
             and b.status in ('completed', 'cancelled', 'failed') and b.completed_at is not null
           order by b.id limit $3`,
          [job.run, job.last_batch_id, MARK_BATCHES],
        )
      : await client.query<MarkedRow>(
          `select b.id, b.samples, ${OLD} and b.samples_removed_at is null as whole from batch b
           where ${stays} and ${ENDED} and not ${KEPT}
             and ((${OLD} and b.samples_removed_at is null) or (${OLD_TEXTS} and b.texts_removed_at is null))
           order by b.id limit $3`,
          [job.policy?.batchesDays ?? null, job.policy?.textsDays ?? null, MARK_BATCHES],
        )
  if (rows.length === 0) return false
  const keepRollUps = job.kind === 'policy' && (job.policy?.keepRollUps ?? true)
  await client.query(
    `insert into removal (batch_id, job_id, text_bucket, whole, keep_roll_ups)
     select b.id, $3, b.text_bucket, t.whole, $4
     from unnest($1::int[], $2::bool[]) as t(id, whole) join batch b on b.id = t.id`,
    [rows.map(({ id }) => id), rows.map(({ whole }) => whole), job.id, keepRollUps],
  )
  await client.query(
    `update batch b set texts_removed_at = coalesce(texts_removed_at, now()),
       samples_removed_at = case when t.whole then coalesce(samples_removed_at, now()) else samples_removed_at end
     from unnest($1::int[], $2::bool[]) as t(id, whole) where b.id = t.id`,
    [rows.map(({ id }) => id), rows.map(({ whole }) => whole)],
  )
  return true
}

interface MarkedRow {
  id: number
  samples: number
  whole: boolean
}

/** Unmarks the batches that a cancelled removal has not begun to remove. */
export async function unmark(client: Client, jobId: number): Promise<void> {
  await client.query('select pg_advisory_xact_lock($1)', [ADVISORY_LOCKS.retentionMarks])
  await client.query(
    `with taken as (delete from removal where job_id = $1 and not begun returning batch_id, whole)
     -- Samples and texts that an earlier removal has deleted stay marked as removed.
     update batch b set samples_removed_at = case when taken.whole
         and (b.samples = 0 or exists (select 1 from sample s where s.batch_id = b.id))
         then null else b.samples_removed_at end,
       texts_removed_at = case when to_regclass('sample_text_' || to_char(b.text_bucket, 'YYYYMMDD')) is not null
         and exists (select 1 from sample_text t where t.bucket = b.text_bucket and t.batch_id = b.id)
         then null else b.texts_removed_at end
     from taken where b.id = taken.batch_id`,
    [jobId],
  )
  const { rows } = await client.query<{ id: number }>(
    `select r.id from retention_job j join run r on r.name = j.run where j.id = $1 and j.kind = 'run'`,
    [jobId],
  )
  for (const { id } of rows) await removeGoneVisits(client, id)
}

/**
 * Drops the oldest daily partition whose texts no batch needs any more. Returns false if there is none. Waits at most
 * 300 ms for the lock on the partitioned table, because readers queue behind the waiting statement, and then fails with
 * SQLSTATE 55P03.
 */
export async function dropDay(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ day: string; bytes: string }>(
    `select d.day::text as day, pg_total_relation_size('sample_text_' || to_char(d.day, 'YYYYMMDD')) as bytes
     from (select distinct text_bucket as day from removal) d
     where to_regclass('sample_text_' || to_char(d.day, 'YYYYMMDD')) is not null and d.day < current_date - 1
       and not exists (select 1 from batch b where b.text_bucket = d.day and b.texts_removed_at is null)
       and not exists (select 1 from rescore_copy c where c.text_bucket = d.day)
     order by d.day limit 1`,
  )
  const [found] = rows
  if (found === undefined) return false
  await client.query("set local lock_timeout = '300ms'")
  await client.query(`drop table ${textPartition(found.day)}`)
  const { rows: done } = await client.query<{ job_id: number; whole: boolean }>(
    // Batches with images are left to `deletePiece`, which releases the images.
    `delete from removal where text_bucket = $1 and not whole
       and not exists (select from batch_image i where i.batch_id = removal.batch_id) returning job_id, whole`,
    [found.day],
  )
  const { rows: jobs } = await client.query<{ job_id: number }>(
    `update removal set begun = true where text_bucket = $1 returning job_id`,
    [found.day],
  )
  const jobId = done[0]?.job_id ?? jobs[0]?.job_id
  if (jobId !== undefined) {
    await addProgress(client, jobId, {
      partitions: 1,
      freedBytes: Number(found.bytes),
      textBatches: done.length,
    })
  }
  return true
}

interface Removal {
  batch_id: number
  job_id: number
  bucket: string
  whole: boolean
  keep_roll_ups: boolean
}

/** Deletes some rows of the first marked batch. Returns false if no batch is marked. */
export async function deletePiece(client: Client): Promise<boolean> {
  const { rows } = await client.query<Removal>(
    `select batch_id, job_id, text_bucket::text as bucket, whole, keep_roll_ups from removal order by batch_id limit 1
     for update`,
  )
  const [removal] = rows
  if (removal === undefined) return false
  const { batch_id: id, bucket } = removal
  await client.query('update removal set begun = true where batch_id = $1 and not begun', [id])
  const texts = await client.query<{ bytes: string }>(
    `with gone as (
       delete from sample_text where bucket = $3 and batch_id = $1 and idx in (
         select idx from sample_text where bucket = $3 and batch_id = $1 order by idx limit $2)
       returning octet_length(prompt) + octet_length(response) + coalesce(octet_length(ground_truth), 0)
         + coalesce(octet_length(extra_info), 0) + 60 as bytes)
     select coalesce(sum(bytes), 0) as bytes from gone having count(*) > 0`,
    [id, MAX_DELETE_ROWS, bucket],
  )
  if (texts.rows.length > 0) {
    await addProgress(client, removal.job_id, { reusableBytes: Number(texts.rows[0]!.bytes) })
    return true
  }
  const imageBytes = await releaseImages(client, id)
  if (imageBytes !== null) {
    await addProgress(client, removal.job_id, { reusableBytes: imageBytes })
    return true
  }
  if (removal.whole && (await deleteRows(client, removal))) return true
  await finish(client, removal)
  return true
}

/** Approximate bytes of a row of a sample or group, with its index entry. The sizes of texts are measured instead. */
const SAMPLE_BYTES = 180
const GROUP_BYTES = 140

/**
 * True if all batches of the batch's run are being removed, and the run's prompts with them. Visits are then not
 * removed batch by batch, which would write each prompt once per visit. If the run stays, because the removal is
 * cancelled or a batch was submitted meanwhile, {@link removeGoneVisits} removes the visits.
 */
async function isRunGoing(client: Client, { batch_id, job_id }: Removal): Promise<boolean> {
  const { rows } = await client.query<{ going: boolean }>(
    `select kind = 'run' and state = 'running' and not exists (
       select 1 from batch b where b.run_id = (select run_id from batch where id = $1)
         and b.id > j.last_batch_id) as going
     from retention_job j where id = $2`,
    [batch_id, job_id],
  )
  return rows[0]?.going === true
}

async function deleteRows(client: Client, removal: Removal): Promise<boolean> {
  const { batch_id: id, job_id, keep_roll_ups } = removal
  const samples = await client.query(
    `delete from sample where batch_id = $1 and idx in (
       select idx from sample where batch_id = $1 order by idx limit $2)`,
    [id, MAX_DELETE_ROWS],
  )
  if (samples.rowCount) {
    await addProgress(client, job_id, {
      samples: samples.rowCount,
      reusableBytes: samples.rowCount * SAMPLE_BYTES,
    })
    return true
  }
  const groups = await client.query<{ prompt: string | null }>(
    `delete from sample_group where batch_id = $1 and no in (
       select no from sample_group where batch_id = $1 order by no limit $2)
     returning encode(prompt_key, 'hex') as prompt`,
    [id, MAX_DELETE_ROWS],
  )
  if (groups.rowCount) {
    if (!keep_roll_ups && !(await isRunGoing(client, removal))) {
      await removeVisits(
        client,
        id,
        groups.rows.flatMap(({ prompt }) => prompt ?? []),
      )
    }
    await addProgress(client, job_id, { reusableBytes: groups.rowCount * GROUP_BYTES })
    return true
  }
  for (const table of ['attempt', 'score_key', 'sample_annotation']) {
    const { rowCount } = await client.query(
      `delete from ${table} where ctid in (select ctid from ${table} where batch_id = $1 limit $2)`,
      [id, MAX_DELETE_ROWS],
    )
    if (rowCount) return true
  }
  return false
}

async function finish(client: Client, removal: Removal): Promise<void> {
  const { batch_id: id, whole, keep_roll_ups } = removal
  if (whole && !keep_roll_ups) {
    for (const table of [
      'batch_roll_up',
      'batch_extra_key',
      'rescore_part',
      'monitor_evaluation',
    ]) {
      await client.query(`delete from ${table} where batch_id = $1`, [id])
    }
    await markRunRollUpStale(client, id)
    // The batch's rescores keep `rescored_from`. Without this value, they would count as steps of their run.
    await client.query('delete from batch where id = $1', [id])
  }
  await client.query('delete from removal where batch_id = $1', [id])
  await addProgress(client, removal.job_id, whole ? { batches: 1 } : { textBatches: 1 })
  await notify(client, 'batchChanged', id)
}

/** Deletes some old events, of one kind at a time. Returns false if none are left. */
export async function pruneEvents(client: Client, job: RetentionJobRow): Promise<boolean> {
  if (job.kind !== 'policy') return false
  const { eventsDays = null, auditDays = null } = job.policy ?? {}
  const pieces: [text: string, days: number | null][] = [
    // The lowest ids are the oldest, so the first rows by id show whether anything is old enough.
    [prunedById('server_event', 'at'), eventsDays],
    [prunedById('attempt', 'started_at'), eventsDays],
    [
      `delete from server_minute where ctid in (select m.ctid from server s, lateral (
         select ctid from server_minute where server_id = s.id
           and minute < now() - $1::int * interval '1 day' limit $2) m limit $2)`,
      eventsDays,
    ],
    [prunedById('audit_event', 'at'), auditDays],
  ]
  for (const [text, days] of pieces) {
    if (days === null) continue
    const { rowCount } = await client.query(text, [days, MAX_DELETE_ROWS])
    if (rowCount) {
      await addProgress(client, job.id, { events: rowCount })
      return true
    }
  }
  return false
}

function prunedById(table: string, at: string): string {
  return `delete from ${table} where id in (
    select id from (select id, ${at} as at from ${table} order by id limit $2) oldest
    where at < now() - $1::int * interval '1 day')`
}

/**
 * Ends a removal that has nothing left to do. If it removed a run and no batches of the run are left, deletes the
 * run.
 */
export async function endJob(client: Client, job: RetentionJobRow): Promise<void> {
  if (job.kind === 'run') {
    // A submit locks the run's row. Once this statement has the lock, the batch of that submit is visible.
    const { rows } = await client.query<{ id: number }>(
      'select id from run where name = $1 for update',
      [job.run],
    )
    const [run] = rows
    if (run !== undefined) {
      const gone = await client.query(
        'delete from run where id = $1 and not exists (select 1 from batch where run_id = $1)',
        [run.id],
      )
      // These rows are not deleted in chunks: `prompt` has one row per prompt of the run, and the other tables have a
      // few rows per run.
      if (gone.rowCount === 1) {
        for (const table of [
          'run_mark',
          'monitor_standing',
          'monitor_incident',
          'monitor_setting',
          'prompt',
          'run_roll_up',
        ]) {
          await client.query(`delete from ${table} where run_id = $1`, [run.id])
        }
      } else await removeGoneVisits(client, run.id)
    }
  }
  await client.query(
    `update retention_job set state = 'done', ended_at = now(), problem = null where id = $1 and state = 'running'`,
    [job.id],
  )
}

/** Cancels a removal. Returns false if the removal has already ended. */
export async function cancelJob(client: Client, id: number): Promise<boolean> {
  const { rowCount } = await client.query(
    `update retention_job set state = 'cancelled', ended_at = now() where id = $1 and state = 'running'`,
    [id],
  )
  return rowCount === 1
}

async function addProgress(
  client: Client,
  jobId: number,
  more: Partial<RemovedDto>,
): Promise<void> {
  const sums = Object.keys(more).map(
    (field, i) =>
      `'${field}', coalesce((progress ->> '${field}')::numeric, 0) + $${i + 2}::numeric`,
  )
  await client.query(
    `update retention_job set progress = progress || jsonb_build_object(${sums.join(', ')}) where id = $1`,
    [jobId, ...Object.values(more)],
  )
}

/** A day of texts, and the number of its batches and samples whose texts are to be removed. */
export interface DayRow {
  day: string
  batches: number
  samples: number
  /** Number of samples of the day whose texts exist. */
  there: number
  whole: boolean
  bytes: number
}

export interface PreviewRow {
  batches: number
  samples: number
  text_batches: number
  kept: number
  under_way: number
  sample_bytes: number
  samples_there: number
}

function goes(of: RemovalOf): { whole: string; texts: string; values: unknown[] } {
  if ('run' in of) {
    const mine = 'b.run_id = (select id from run where name = $1)'
    return {
      whole: `(${mine} and b.completed_at is not null)`,
      texts: `(${mine} and b.completed_at is not null and b.texts_removed_at is null)`,
      values: [of.run],
    }
  }
  const free = `${ENDED} and not ${KEPT} and not ${COPIED}`
  const whole = `(${free} and ${OLD} and b.samples_removed_at is null)`
  return {
    whole,
    texts: `(b.texts_removed_at is null and ((${free} and ${OLD_TEXTS}) or ${whole}))`,
    values: [of.policy.batchesDays, of.policy.textsDays],
  }
}

export type RemovalOf = { policy: RetentionPolicy } | { run: string }

export async function previewBatches(db: Database, of: RemovalOf): Promise<PreviewRow> {
  const { whole, texts, values } = goes(of)
  const old = 'run' in of ? 'false' : `(${OLD} or ${OLD_TEXTS}) and b.texts_removed_at is null`
  const [row] = await db.adhoc<PreviewRow>(
    `select (count(*) filter (where ${whole}))::int as batches,
       coalesce(sum(samples) filter (where ${whole} and b.samples_removed_at is null), 0)::float8 as samples,
       (count(*) filter (where ${texts} and not ${whole}))::int as text_batches,
       (count(*) filter (where ${old} and ${KEPT}))::int as kept,
       (count(*) filter (where ${old} and not ${KEPT} and (not ${ENDED} or ${COPIED})))::int as under_way,
       coalesce(sum(samples) filter (where b.samples_removed_at is null), 0)::float8 as samples_there,
       (pg_total_relation_size('sample') + pg_total_relation_size('sample_group'))::float8 as sample_bytes
     from batch b`,
    values,
  )
  return row!
}

export async function previewDays(db: Database, of: RemovalOf, limit: number): Promise<DayRow[]> {
  const { texts, values } = goes(of)
  return db.adhoc<DayRow>(
    `select day::text as day, batches, samples, there, whole and day < current_date - 1 as whole,
       coalesce(pg_total_relation_size(to_regclass('sample_text_' || to_char(day, 'YYYYMMDD'))), 0)::float8 as bytes
     from (select text_bucket as day, (count(*) filter (where ${texts}))::int as batches,
             coalesce(sum(samples) filter (where ${texts}), 0)::float8 as samples,
             coalesce(sum(samples) filter (where b.texts_removed_at is null), 0)::float8 as there,
             bool_and(b.texts_removed_at is not null or ${texts}) as whole
           from batch b group by 1) d
     where batches > 0 order by d.day limit ${limit}`,
    values,
  )
}

/** Bytes of the images that are used only by batches whose texts are to be removed. */
export async function previewImages(db: Database, of: RemovalOf): Promise<number> {
  const { texts, values } = goes(of)
  const [row] = await db.adhoc<{ bytes: number }>(
    `select coalesce(sum(octet_length(bytes)), 0)::float8 as bytes from image where sha256 in (
       select i.sha256 from batch_image i join batch b on b.id = i.batch_id group by 1 having bool_and(${texts}))`,
    values,
  )
  return row!.bytes
}

/** Number of old events to be removed, counted up to `most` per table. */
export async function previewEvents(
  db: Database,
  policy: RetentionPolicy,
  most: number,
): Promise<number> {
  const { eventsDays, auditDays } = policy
  const old = (table: string, at: string, days: string) =>
    `(select count(*) from (select 1 from ${table} where ${at} < now() - ${days}::int * interval '1 day' limit ${most}) x)`
  const [row] = await db.adhoc<{ n: number }>(
    `select (${old('server_event', 'at', '$1')} + ${old('attempt', 'started_at', '$1')}
       + ${old('server_minute', 'minute', '$1')} + ${old('audit_event', 'at', '$2')})::int as n`,
    [eventsDays, auditDays],
  )
  return row!.n
}

/**
 * A run's number of batches that are unfinished or being copied, and its last batch; undefined if the run does not
 * exist.
 */
export async function runForDeletion(
  db: Database,
  run: string,
): Promise<{ busy: number; last_id: number | null; batches: number; samples: number } | undefined> {
  const [row] = await db.adhoc<{
    busy: number
    last_id: number | null
    batches: number
    samples: number
  }>(
    `select (count(b.id) filter (where b.completed_at is null or ${COPIED}
         or (not b.rolled_up and b.completed_at > now() - interval '1 minute')))::int as busy, max(b.id) as last_id,
       count(b.id)::int as batches,
       coalesce(sum(b.samples) filter (where b.samples_removed_at is null), 0)::float8 as samples
     from run left join batch b on b.run_id = run.id where run.name = $1 group by run.id`,
    [run],
  )
  return row
}

export function keptRuns(
  db: Database,
  limit: number,
): Promise<{ run: string; kept_at: Date; kept_by: string }[]> {
  return db.rows('runs-kept', 'select run, kept_at, kept_by from run_kept order by run limit $1', [
    limit,
  ])
}

export async function keepRun(db: Database, run: string, keep: boolean, by: string): Promise<void> {
  await (keep
    ? db.adhoc('insert into run_kept (run, kept_by) values ($1, $2) on conflict do nothing', [
        run,
        by,
      ])
    : db.adhoc('delete from run_kept where run = $1', [run]))
}

/** Time since the start of the policy's last removal, ms, or null if there was none. */
export async function sinceLastPolicyJob(db: Database): Promise<number | null> {
  const [row] = await db.rows<{ ms: number | null }>(
    'removal-last',
    `select (extract(epoch from clock_timestamp() - max(created_at)) * 1000)::float8 as ms
     from retention_job where kind = 'policy'`,
  )
  return row?.ms ?? null
}
