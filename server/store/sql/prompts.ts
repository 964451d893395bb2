import type { GroupPasses, PromptFilter, PromptOrder } from '../../contract/prompts.ts'
import { readableText } from '../../contract/storable-text.ts'
import { contentText } from '../../contract/turn-text.ts'
import { figuresOf, mergeVisits, type PromptFigures, type Visit } from '../../prompt-visits.ts'
import { ADVISORY_LOCKS } from '../advisory-locks.ts'
import { plainArray, textArray } from '../array-literal.ts'
import type { Client, Database } from '../database.ts'
import { decodeTexts } from '../stored-texts.ts'
import { decodeVisits, encodeVisits } from '../visit-bytes.ts'
import { type Arg, args } from './args.ts'
import { likePattern } from './sample-texts.ts'

const MAX_PREVIEW_CHARS = 300
/**
 * Maximum number of characters of a stored prompt that are read for its preview. If a list of messages is longer, its
 * preview is the start of its JSON.
 */
const READ_CHARS = 20_000

/** A visit with the key of its prompt, in hexadecimal. */
export type KeyedVisit = Visit & { key: string }

export interface PromptScope {
  runId: number
  split: string
}

/**
 * Adds groups of an ended batch to their prompts as visits, in one transaction so that no visit is lost. Safe to
 * repeat.
 */
export async function addVisits(
  db: Database,
  batch: { id: number; run_id: number; split: string },
  visits: readonly KeyedVisit[],
): Promise<void> {
  if (visits.length === 0) return
  const scope = { runId: batch.run_id, split: batch.split }
  const added = Map.groupBy(visits, ({ key }) => key)
  const keys = [...added.keys()].sort()
  await db.transaction(async (client) => {
    const stored = await lockedVisits(client, scope, keys)
    const fresh = await textsOfPrompts(
      client,
      batch.id,
      keys.flatMap((key) =>
        stored.has(key) ? [] : { key, group: (added.get(key) as KeyedVisit[])[0]!.group },
      ),
    )
    await storeVisits(
      client,
      scope,
      [...stored.keys(), ...fresh.keys()].map((key) => ({
        key,
        text: fresh.get(key),
        visits: mergeVisits(stored.get(key) ?? [], added.get(key) as KeyedVisit[]),
      })),
    )
  })
}

/** Removes the visits of a batch whose data are deleted, and deletes prompts that then have no visits. */
export async function removeVisits(
  client: Client,
  batchId: number,
  keys: readonly string[],
): Promise<void> {
  const { rows } = await client.query<{ run_id: number; split: string }>(
    'select run_id, split from batch where id = $1',
    [batchId],
  )
  const { run_id: runId, split } = rows[0]!
  const scope = { runId, split }
  const stored = await lockedVisits(client, scope, [...new Set(keys)])
  const left = [...stored].map(([key, visits]) => ({
    key,
    visits: visits.filter((visit) => visit.batchId !== batchId),
  }))
  await storeLeftVisits(client, scope, left)
}

const CHECKED_PROMPTS = 2_048

/** Removes the visits of batches that were deleted, or are being removed as a whole, from all prompts of a run. */
export async function removeGoneVisits(client: Client, runId: number): Promise<void> {
  await client.query('select pg_advisory_xact_lock($1, $2)', [ADVISORY_LOCKS.prompts, runId])
  for (const split of ['train', 'val']) {
    let after: Buffer = Buffer.alloc(0)
    for (;;) {
      const { rows } = await client.query<{ key: Buffer; history: Buffer }>(
        `select key, history from prompt where run_id = $1 and split = $2 and key > $3
         order by key limit ${CHECKED_PROMPTS}`,
        [runId, split, after],
      )
      const stored = rows.map((row) => ({
        key: row.key.toString('hex'),
        visits: decodeVisits(row.history),
      }))
      const visited = new Set(stored.flatMap(({ visits }) => visits.map(({ batchId }) => batchId)))
      const { rows: gone } = await client.query<{ id: number }>(
        `select id from unnest($1::int[]) as v(id) where not exists (select 1 from batch b where b.id = v.id)
           or exists (select 1 from removal m where m.batch_id = v.id and m.whole)`,
        [plainArray([...visited])],
      )
      const isGone = new Set(gone.map(({ id }) => id))
      const changed = stored.filter(({ visits }) =>
        visits.some(({ batchId }) => isGone.has(batchId)),
      )
      await storeLeftVisits(
        client,
        { runId, split },
        changed.map(({ key, visits }) => ({
          key,
          visits: visits.filter(({ batchId }) => !isGone.has(batchId)),
        })),
      )
      if (rows.length < CHECKED_PROMPTS) break
      after = rows.at(-1)!.key
    }
  }
}

async function storeLeftVisits(
  client: Client,
  scope: PromptScope,
  prompts: readonly { key: string; visits: readonly Visit[] }[],
): Promise<void> {
  const emptied = prompts.filter(({ visits }) => visits.length === 0).map(({ key }) => key)
  await client.query(
    'delete from prompt where run_id = $1 and split = $2 and key = any($3::bytea[])',
    [scope.runId, scope.split, byteaArray(emptied)],
  )
  await storeVisits(
    client,
    scope,
    prompts.filter(({ visits }) => visits.length > 0),
  )
}

/** The visits of prompts by key. Until this transaction ends, no other transaction can change prompts of the run. */
async function lockedVisits(
  client: Client,
  { runId, split }: PromptScope,
  keys: readonly string[],
): Promise<Map<string, Visit[]>> {
  await client.query('select pg_advisory_xact_lock($1, $2)', [ADVISORY_LOCKS.prompts, runId])
  const { rows } = await client.query<{ key: Buffer; history: Buffer }>({
    name: 'visits-of-prompts',
    // One lookup per key, because a join may be planned as a scan of all prompts of the run.
    text: `select p.key, p.history from unnest($3::bytea[]) as k(key)
           cross join lateral (select key, history from prompt
                               where run_id = $1 and split = $2 and key = k.key limit 1) p`,
    values: [runId, split, byteaArray(keys)],
  })
  return new Map(rows.map(({ key, history }) => [key.toString('hex'), decodeVisits(history)]))
}

/**
 * Stores the visits of prompts, at least one each, and the figures derived from them. A prompt that is not stored yet
 * needs its text. The statement is an upsert, which looks up each prompt by its key. An update with a join was planned
 * as a scan of the run's prompts for each prompt (46 µs per sample at 4,000 prompts, and more with each batch).
 */
async function storeVisits(
  client: Client,
  { runId, split }: PromptScope,
  prompts: readonly { key: string; text?: PromptText; visits: readonly Visit[] }[],
): Promise<void> {
  if (prompts.length === 0) return
  const figures = prompts.map(({ visits }) => figuresOf(visits))
  const numbers = (of: (one: PromptFigures) => number | null) => plainArray(figures.map(of))
  await client.query({
    name: 'store-visits',
    text: `insert into prompt (run_id, split, key, class, scored, passed, mean, recent_scored, recent_passed, recent_mean,
             change, varied, last_step, visits, history, data_source, prompt_id, preview)
           select $1, $2, * from unnest($3::bytea[], $4::text[], $5::int[], $6::int[], $7::float8[], $8::int[], $9::int[],
             $10::float8[], $11::float8[], $12::int[], $13::int[], $14::int[], $15::bytea[], $16::text[], $17::text[],
             $18::text[])
           on conflict (run_id, split, key) do update set class = excluded.class, scored = excluded.scored,
             passed = excluded.passed, mean = excluded.mean, recent_scored = excluded.recent_scored,
             recent_passed = excluded.recent_passed, recent_mean = excluded.recent_mean, change = excluded.change,
             varied = excluded.varied, last_step = excluded.last_step, visits = excluded.visits,
             history = excluded.history`,
    values: [
      runId,
      split,
      byteaArray(prompts.map(({ key }) => key)),
      textArray(figures.map((one) => one.class)),
      numbers((one) => one.scored),
      numbers((one) => one.passed),
      numbers((one) => one.mean),
      numbers((one) => one.recentScored),
      numbers((one) => one.recentPassed),
      numbers((one) => one.recentMean),
      numbers((one) => one.change),
      numbers((one) => one.varied),
      numbers((one) => one.lastStep),
      plainArray(prompts.map(({ visits }) => visits.length)),
      byteaArray(prompts.map(({ visits }) => encodeVisits(visits).toString('hex'))),
      textArray(prompts.map(({ text }) => text?.dataSource ?? '')),
      textArray(prompts.map(({ text }) => text?.promptId ?? null)),
      textArray(prompts.map(({ text }) => text?.preview ?? '')),
    ],
  })
}

/** The fields of a prompt that come from the group of its first visit. */
interface PromptText {
  dataSource: string
  promptId: string | null
  preview: string
}

/**
 * The texts of prompts by key. Each text is read from the given group of the prompt in the batch. Prompts whose group
 * no longer exists are left out.
 */
async function textsOfPrompts(
  client: Client,
  batchId: number,
  prompts: readonly { key: string; group: number }[],
): Promise<Map<string, PromptText>> {
  if (prompts.length === 0) return new Map()
  const { rows } = await client.query<{
    no: number
    data_source: string
    prompt_id: string | null
    prompt: string | null
    encoding: number | null
  }>({
    name: 'first-texts-of-groups',
    // Two lookups by key for the first sample of each group.
    text: `select s.no, s.data_source, s.prompt_id, left(t.prompt, ${READ_CHARS}) as prompt, t.encoding
           from (select group_no as no, min(idx) as idx from sample
                 where batch_id = $1 and group_no = any($2::int[]) group by 1) first
           cross join lateral (select first.no, data_source, prompt_id from sample
                               where batch_id = $1 and idx = first.idx) s
           left join lateral (select prompt, encoding from sample_text
                              where bucket = (select text_bucket from batch where id = $1) and batch_id = $1
                                and idx = first.idx) t on true`,
    values: [batchId, plainArray(prompts.map(({ group }) => group))],
  })
  const rowOf = new Map(rows.map((row) => [row.no, row]))
  return new Map(
    prompts.flatMap(({ key, group }) => {
      const row = rowOf.get(group)
      if (row === undefined) return []
      const preview = previewOf(row.prompt ?? '', row.encoding ?? 0)
      return [[key, { dataSource: row.data_source, promptId: row.prompt_id, preview }]]
    }),
  )
}

/** The start of a stored prompt. For chat messages, this is the start of the last user message. */
export function previewOf(stored: string, encoding: number): string {
  let text = stored
  try {
    const { prompt } = decodeTexts({
      ...{ prompt: stored, response: '', ground_truth: null, extra_info: null, encoding },
    })
    text =
      typeof prompt === 'string'
        ? prompt
        : contentText((prompt.findLast(({ role }) => role === 'user') ?? prompt.at(-1))?.content)
  } catch {
    // Only a part of the messages was read, so they cannot be parsed. The preview is the start of their JSON.
  }
  const start = [...text.slice(0, 2 * MAX_PREVIEW_CHARS)].slice(0, MAX_PREVIEW_CHARS)
  return readableText(start.join(''))
}

/** A Postgres array literal of `bytea` values, which are given in hexadecimal. */
function byteaArray(values: readonly string[]): string {
  return values.length === 0 ? '{}' : `{"\\\\x${values.join('","\\\\x')}"}`
}

export interface PromptRow {
  key: string
  prompt_id: string | null
  data_source: string
  preview: string
  class: string
  scored: number
  passed: number | null
  mean: number | null
  recent_scored: number
  recent_passed: number | null
  recent_mean: number | null
  change: number | null
  varied: number
  visits: number
  last_step: number
  history: Buffer
}

export interface ListedPromptRow extends PromptRow {
  sort: number | null
}

const ORDER_BY: Record<PromptOrder, string> = {
  rate: 'coalesce(recent_passed::float8, recent_mean * recent_scored) / nullif(recent_scored, 0)',
  change: 'change',
  visits: 'visits::float8',
  lastStep: 'last_step::float8',
  varied: 'varied::float8 / nullif(visits, 0)',
}

/**
 * SQL expression for the run's id that makes Postgres use the index on (run_id::bigint, split). This index lists
 * prompts in their physical order.
 */
const RUN_IN_PLACE = 'run_id::bigint'

/**
 * SQL conditions of a filter on the table `prompt`. `run` is the SQL expression for the run's id; it determines which
 * index Postgres uses.
 */
function conditions(
  scope: PromptScope,
  filter: Omit<PromptFilter, 'run' | 'split'>,
  arg: Arg,
  run: 'run_id' | typeof RUN_IN_PLACE = RUN_IN_PLACE,
) {
  const where = [`${run} = ${arg(scope.runId)}`, `split = ${arg(scope.split)}`]
  if (filter.class !== undefined) where.push(`class = ${arg(filter.class)}`)
  if (filter.dataSource !== undefined) where.push(`data_source = ${arg(filter.dataSource)}`)
  if (filter.search !== undefined && filter.search !== '') {
    const pattern = arg(likePattern(readableText(filter.search)))
    where.push(`(preview ilike ${pattern} or prompt_id ilike ${pattern})`)
  }
  return where
}

const ROW = `encode(key, 'hex') as key, prompt_id, data_source, preview, class, scored, passed, mean, recent_scored,
  recent_passed, recent_mean, change, varied, visits, last_step, history`

/**
 * A page of the prompts that match a filter. Prompts without the ordering value come last. Reads all prompts of the run
 * and split.
 */
export async function promptPage(
  db: Database,
  scope: PromptScope,
  filter: Omit<PromptFilter, 'run' | 'split'>,
  page: {
    orderBy: PromptOrder
    descending: boolean
    limit: number
    after: { sort: number | null; key: string } | null
  },
): Promise<ListedPromptRow[]> {
  const { values, arg } = args()
  const where = conditions(scope, filter, arg)
  const direction = page.descending ? 'desc' : 'asc'
  const beyond = page.descending ? '<' : '>'
  if (page.after !== null) {
    const key = `decode(${arg(page.after.key)}, 'hex')`
    if (page.after.sort === null) where.push(`(sort is null and key > ${key})`)
    else {
      const sort = `${arg(page.after.sort)}::float8`
      where.push(`(sort ${beyond} ${sort} or (sort = ${sort} and key > ${key}) or sort is null)`)
    }
  }
  // Wide columns are read only for the rows of the page.
  return db.adhoc(
    `select ${ROW}, sort
     from (select run_id as r, split as s, key as k, sort
           from (select *, ${ORDER_BY[page.orderBy]} as sort from prompt) p
           where ${where.join(' and ')}
           order by sort ${direction} nulls last, key limit ${arg(page.limit)}) page
     cross join lateral (select * from prompt where run_id = r and split = s and key = k limit 1) p
     order by sort ${direction} nulls last, key`,
    values,
  )
}

export async function promptOf(
  db: Database,
  { runId, split }: PromptScope,
  key: string,
): Promise<PromptRow | undefined> {
  const [row] = await db.rows<PromptRow>(
    'prompt-of',
    `select ${ROW}
     from prompt where run_id = $1 and split = $2 and key = decode($3, 'hex')`,
    [runId, split, key],
  )
  return row
}

export async function countPrompts(
  db: Database,
  scope: PromptScope,
  filter: Omit<PromptFilter, 'run' | 'split'>,
): Promise<{ class: string; data_source: string; prompts: number }[]> {
  const { values, arg } = args()
  return db.adhoc(
    `select class, data_source, count(*)::int as prompts from prompt
     where ${conditions(scope, filter, arg).join(' and ')} group by 1, 2`,
    values,
  )
}

/** The first prompts that match a filter, in order of their keys. Keys are hashes, so this is a random sample. */
export async function firstPrompts(
  db: Database,
  scope: PromptScope,
  filter: Omit<PromptFilter, 'run' | 'split'>,
  limit: number,
): Promise<PromptRow[]> {
  const { values, arg } = args()
  return db.adhoc(
    `select ${ROW} from prompt
     where ${conditions(scope, filter, arg, 'run_id').join(' and ')} order by run_id, split, key limit ${arg(limit)}`,
    values,
  )
}

/** Bytes of a key that identify a prompt in {@link PassClass}. Keys are hashes, so equal prefixes are unlikely. */
export const KEY_PREFIX_BYTES = 8

/** The prompts that had equal numbers of scored samples and of passed samples in their recent groups. Unordered. */
export interface PassClass {
  scored: number
  passed: number
  /** The first {@link KEY_PREFIX_BYTES} bytes of each prompt's key. */
  keys: Buffer
}

/**
 * Reads the recent numbers of passed samples, for prompts whose rewards show whether a sample passes. Keys are read as
 * bytes, because for 200,000 prompts keys in JSON took four times as long as the scan.
 */
export async function recentPasses(
  db: Database,
  scope: PromptScope,
  dataSource: string | undefined,
): Promise<PassClass[]> {
  const { values, arg } = args()
  const where = conditions(scope, { dataSource }, arg)
  return db.adhoc(
    `select recent_scored as scored, recent_passed as passed, string_agg(substr(key, 1, ${KEY_PREFIX_BYTES}), '') as keys
     from prompt where ${where.join(' and ')} and recent_passed is not null group by 1, 2`,
    values,
  )
}

export async function promptsOf(
  db: Database,
  { runId, split }: PromptScope,
  prefixes: readonly string[],
): Promise<
  Pick<
    PromptRow,
    | 'key'
    | 'prompt_id'
    | 'data_source'
    | 'preview'
    | 'recent_scored'
    | 'recent_passed'
    | 'last_step'
  >[]
> {
  return db.rows(
    'prompts-of',
    `select encode(p.key, 'hex') as key, prompt_id, data_source, preview, recent_scored, recent_passed, last_step
     from unnest($3::bytea[]) as k(prefix)
     cross join lateral (select * from prompt where run_id = $1 and split = $2
                           and key between k.prefix and k.prefix || '\\xffffffffffffffff'::bytea limit 1) p`,
    [runId, split, byteaArray(prefixes)],
  )
}

/** The uids of groups that still exist. A group is given by its batch and its number, in parallel lists. */
export async function visitedGroups(
  db: Database,
  batches: readonly number[],
  groups: readonly number[],
): Promise<{ batch_id: number; no: number; uid: string }[]> {
  return db.rows(
    'visited-groups',
    `select g.batch_id, g.no, g.uid
     from unnest($1::int[], $2::int[]) as v(batch_id, no)
     join batch b on b.id = v.batch_id and b.samples_removed_at is null
     join sample_group g on g.batch_id = v.batch_id and g.no = v.no`,
    [plainArray(batches), plainArray(groups)],
  )
}

/**
 * The newest steps of a run and split within a range, oldest first, each with its last batch. Rescores are excluded.
 */
export async function groupPassesOf(
  db: Database,
  { runId, split }: PromptScope,
  { from, until }: { from: number; until: number },
  limit: number,
): Promise<{ step: number; id: number; group_passes: GroupPasses }[]> {
  return db.rows(
    'group-passes-of',
    `select * from (
       select distinct on (step) step, id, group_passes from batch
       where run_id = $1 and split = $2 and rescored_from is null and group_passes is not null
         and step between $4 and $5
       order by step desc, id desc limit $3) t order by step`,
    [runId, split, limit, from, until],
  )
}

/** Number of steps that have figures of their groups, from `from` up to but not including `step`. */
export async function groupPassesBefore(
  db: Database,
  { runId, split }: PromptScope,
  { from, step }: { from: number; step: number },
): Promise<number> {
  const [row] = await db.rows<{ n: number }>(
    'group-passes-before',
    `select count(distinct step)::int as n from batch
     where run_id = $1 and split = $2 and rescored_from is null and group_passes is not null
       and step >= $3 and step < $4`,
    [runId, split, from, step],
  )
  return row!.n
}

/** Number of groups without a prompt in the batches of a run and split. */
export async function groupsWithoutPrompt(
  db: Database,
  { runId, split }: PromptScope,
): Promise<number> {
  const [row] = await db.rows<{ n: number }>(
    'groups-without-prompt',
    `select coalesce(sum((group_passes ->> 'withoutPrompt')::int), 0)::int as n from batch
     where run_id = $1 and split = $2 and rescored_from is null`,
    [runId, split],
  )
  return row!.n
}
