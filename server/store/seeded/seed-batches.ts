import { plainArray, textArray } from '../array-literal.ts'
import { tablesOf } from '../backup/tables.ts'
import type { Client, Database } from '../database.ts'
import { storeImages } from '../sql/images.ts'
import { changeRun } from '../sql/run-config.ts'
import { RESPONSE_HAS_IMAGES } from '../stored-images.ts'
import { RESPONSE_IS_MESSAGES } from '../stored-texts.ts'
import { ensureTextPartition, textBucket, textPartition } from '../text-partitions.ts'
import { SLOW_FACTOR, seedFleet } from './seed-fleet.ts'
import { seededImages } from './seeded-images.ts'
import { SEEDED_RUNS, type SeededRun } from './seeded-run.ts'

/** Maximum number of samples per step, as in a large training job: 1,024 prompts × 8. */
const MAX_STEP_SAMPLES = 8_192
/** Minimum number of samples per step: 8 groups, so that the monitors of groups have values. */
const MIN_STEP_SAMPLES = 64
/**
 * Number of steps of a run that has too few samples to fill steps of `MAX_STEP_SAMPLES`. With 30 steps or more, a
 * prompt has seven groups, the last two of them after the policy forgets the prompt, and half of the forgotten prompts
 * are classified as regressed. With 21 steps, only a third of them are; with 7 steps, none.
 */
const STEPS = 32
const VALIDATED_EVERY = 20
/** Maximum age of a seeded run's first step, days. */
const MAX_DAYS = 30
/**
 * Share of responses without the answer marker that a rule looks for: `FORMAT_LOST_SHARE` in `FORMAT_LOST_STEPS` steps
 * in the middle of the run, `UNMARKED_SHARE` in all other steps.
 */
const UNMARKED_SHARE = 0.02
const FORMAT_LOST_SHARE = 0.5
const FORMAT_LOST_STEPS = 2
/** Amount by which a component's score drifts, and the share of the run after which the drift begins. */
const DRIFT = 0.8
const DRIFT_FROM = 0.75
/** Number of steps in an epoch: each prompt has a group in every fourth step. */
const EPOCH_STEPS = 4
/** Index of the first validation prompt. All validation batches have the same prompts. */
const FIRST_VALIDATION_PROMPT = 1_000_000
/** A run with `forgets` forgets every twentieth prompt after this share of its steps. */
const FORGOTTEN_FROM = 0.7
const FORGOTTEN = 'prompt % 20 = 7'

/** Number of samples with token scores in the last step of a run with `byTokens`. */
const TOKEN_SCORED = 512

const hasFailedCall = (idx: 'i' | 'idx') => `(${idx} % 16 = 5)`

/** SQL of the sum that a prompt asks for. */
const sumOf = (prompt: 'p' | 'prompt') => `(${prompt} + ${prompt} % 97)`
/** SQL of a sample's final answer, which is the sum only if `is_correct`. */
const answerOf = (prompt: 'p' | 'prompt', idx: 'i' | 'idx') =>
  `(${sumOf(prompt)} + case when is_correct then 0 else 1 + ${idx} % 7 end)`

/** SQL of the last sentence of a response to the prompt `p`. */
const ANSWER = `case when verdict = 'no answer' then 'The result follows.' else 'The answer is ' || ${answerOf('p', 'idx')} || '.' end`
/** SQL of a response as plain text. */
const RESPONSE = `'Seeded response ' || idx || ' of step ' || $3 || '. ' || repeat('Step by step. ', 1 + idx % 9) || ${ANSWER}`
/** SQL of a response as the messages of a trajectory with a tool call and an image. */
const TRAJECTORY = `json_build_array(
  json_build_object('role', 'assistant', 'content', 'I let the calculator add them.', 'tool_calls', json_build_array(
    json_build_object('id', 'call_' || idx, 'type', 'function', 'function',
      json_build_object('name', 'add', 'arguments', json_build_object('a', p, 'b', p % 97)::text)))),
  json_build_object('role', 'tool', 'tool_call_id', 'call_' || idx, 'name', 'add', 'is_error', ${hasFailedCall('idx')}, 'content', json_build_array(
    json_build_object('type', 'text', 'text', case when ${hasFailedCall('idx')} then 'The calculator timed out.' else ${sumOf('p')}::text end),
    json_build_object('type', 'image_url', 'image_url',
      json_build_object('url', 'data:image/png;base64,@' || ($6::text[])[1 + idx % 2])))),
  json_build_object('role', 'assistant', 'content', 'Step ' || $3 || '. ' || ${ANSWER}))::text`
/** SQL of a trajectory with `\/` in its image references, added last because `json_build_object` would escape it. */
const WITH_IMAGES = `replace(${TRAJECTORY}, ';base64,@', ';base64,\\/')`

export interface Seeded {
  runs: string[]
  batches: number
  samples: number
}

export interface SeedOptions {
  /** Approximate total over all runs. */
  samples: number
  seed: number
  /** Samples per step; default {@link stepSamplesOf}. */
  stepSamples?: number
  /** Training prompts per run; default: the prompts of four steps. */
  prompts?: number | undefined
  /** Time after the last step, epoch ms; default now. */
  nowMs?: number
  onBatch(done: Seeded): void
}

/**
 * Samples per step of a run with `samples` samples, in whole groups of eight. Runs of at least 3,333 samples (20,000 in
 * six runs) have at least 30 steps.
 */
export function stepSamplesOf(samples: number): number {
  const wanted = Math.ceil(samples / STEPS / 8) * 8
  return Math.min(MAX_STEP_SAMPLES, Math.max(MIN_STEP_SAMPLES, wanted))
}

/**
 * Fills the database with generated runs, marked as seeded: about `samples` samples in the {@link SEEDED_RUNS}, all
 * scored or failed. Equal seeds give equal data. The service stores the roll-ups.
 * @throws Error if seeded runs exist
 */
export async function seedBatches(db: Database, options: SeedOptions): Promise<Seeded> {
  const there = await db.adhoc<{ name: string }>('select name from run where seeded')
  if (there.length > 0) {
    throw new Error(
      `There are seeded runs already (${there.map(({ name }) => name).join(', ')}). Set REWARDOPS_DATA_DIR to an empty folder.`,
    )
  }
  const { nowMs: now = Date.now() } = options
  const serverIds = await seedFleet(db)
  const done: Seeded = { runs: [], batches: 0, samples: 0 }
  const share = Math.max(1, Math.round(options.samples / SEEDED_RUNS.length))
  const stepSamples = options.stepSamples ?? stepSamplesOf(share)
  const plans = []
  for (const [at, run] of SEEDED_RUNS.entries()) {
    const [row] = await db.adhoc<{ id: number }>(
      'insert into run (name, seeded) values ($1, true) returning id',
      [run.name],
    )
    await db.transaction((client) =>
      changeRun(client, {
        run: run.name,
        config: seededConfig(run, options.seed, at),
        tags: [run.reward.kind, at % 2 === 0 ? 'baseline' : 'ablation'],
      }),
    )
    done.runs.push(run.name)
    const steps = Math.ceil(share / stepSamples)
    // A long run has shorter intervals between its steps, so that the run fits into MAX_DAYS.
    const stepMs = Math.min(run.stepSeconds * 1_000, (MAX_DAYS * 86_400_000) / steps)
    plans.push({ run, runId: row!.id, steps, stepMs, hash: options.seed * 1_000 + at })
  }
  const steps = Math.max(...plans.map((plan) => plan.steps))
  // The steps of all runs alternate, as if the runs had been concurrent.
  for (let step = 0; step < steps; step++) {
    for (const { run, runId, steps, stepMs, hash } of plans) {
      if (step >= steps) continue
      const validated = step % VALIDATED_EVERY === VALIDATED_EVERY - 1
      const all = Math.min(stepSamples, share - step * stepSamples)
      const val = validated ? Math.floor(all / 8 / run.groupSize) * run.groupSize : 0
      const parts = { train: all - val, val }
      const submittedMs = now - (steps - step) * stepMs
      const bucket = textBucket(submittedMs)
      await ensureTextPartition(db, bucket)
      for (const split of ['train', 'val'] as const) {
        const samples = parts[split]
        if (samples === 0) continue
        await db.transaction((client) =>
          seedBatch(client, {
            ...{ run, runId, step: step + 1, split, samples, submittedMs, bucket, serverIds, hash },
            progress: steps === 1 ? 1 : step / (steps - 1),
            ...{ steps, stepSamples },
            prompts: options.prompts ?? EPOCH_STEPS * (stepSamples / run.groupSize),
          }),
        )
        done.batches++
        done.samples += samples
        options.onBatch(done)
      }
    }
  }
  await db.adhoc(`analyze ${tablesOf().join(', ')}`)
  return done
}

function seededConfig({ groupSize, rewardName }: SeededRun, seed: number, at: number) {
  return {
    model: at % 2 === 0 ? 'policy-8b' : 'policy-1b',
    ...{ seed, groupSize, reward: rewardName },
    optimizer: { name: 'adamw', lr: (1 + (at % 3)) * 1e-6, betas: [0.9, 0.95] },
    klCoefficient: at % 2 === 0 ? 0 : 0.001,
  }
}

interface SeededBatch {
  run: SeededRun
  runId: number
  step: number
  split: 'train' | 'val'
  samples: number
  submittedMs: number
  bucket: string
  serverIds: readonly number[]
  hash: number
  /** Progress of the run, 0 to 1. */
  progress: number
  steps: number
  /** Samples of a full step. */
  stepSamples: number
  prompts: number
}

/** The index of a batch's first prompt. The batch's groups have consecutive prompts, modulo {@link epochOf}. */
function firstPromptOf({ split, step, run, stepSamples }: SeededBatch): number {
  return split === 'val' ? FIRST_VALIDATION_PROMPT : step * (stepSamples / run.groupSize)
}

/** The number of training prompts. For validation, a number so large that no prompt repeats within a batch. */
function epochOf({ split, prompts }: SeededBatch): number {
  return split === 'val' ? 2 ** 31 - 1 : prompts
}

function isFormatLost({ step, steps }: SeededBatch): boolean {
  const first = Math.ceil(steps / 2)
  return steps > 4 * FORMAT_LOST_STEPS && step >= first && step < first + FORMAT_LOST_STEPS
}

async function seedBatch(client: Client, batch: SeededBatch): Promise<void> {
  const { run, samples } = batch
  const { rows } = await client.query<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, group_size, reward, reward_name, samples, text_bucket, submitted_at, last_append_at)
     values ($1, $2, $3, 'completed', true, $4, $5, $6, $7, $8, to_timestamp($9 / 1000.0), to_timestamp($9 / 1000.0)) returning id`,
    [
      batch.runId,
      batch.step,
      batch.split,
      run.groupSize,
      JSON.stringify(run.reward),
      run.rewardName,
      samples,
      batch.bucket,
      batch.submittedMs,
    ],
  )
  const id = rows[0]!.id
  await client.query(samplesSql(batch), [
    id,
    samples,
    run.groupSize,
    batch.hash,
    // The skill rises over the steps and flattens.
    -1.1 + 2.4 * (1 - Math.exp(-3 * batch.progress)),
    plainArray(cumulative(run.dataSources.map(([, share]) => share))),
    textArray(run.dataSources.map(([name]) => name)),
    plainArray(cumulative(run.failures.map(([, share]) => share))),
    textArray(run.failures.map(([reason]) => reason)),
    run.scoreMs.median,
    run.scoreMs.spread,
    run.tokens.from + (run.tokens.to - run.tokens.from) * batch.progress,
    batch.submittedMs,
    plainArray(run.byServers ? batch.serverIds : []),
    isFormatLost(batch) ? FORMAT_LOST_SHARE : UNMARKED_SHARE,
    batch.progress > DRIFT_FROM ? DRIFT : 0,
    ...[Math.floor(firstPromptOf(batch)), Math.floor(epochOf(batch))],
    run.forgets && batch.progress >= FORGOTTEN_FROM ? 8 : 0,
  ])
  const prompts = [Math.floor(firstPromptOf(batch)), Math.floor(epochOf(batch))]
  const [response, encoding] = run.isAgent
    ? [WITH_IMAGES, RESPONSE_IS_MESSAGES | RESPONSE_HAS_IMAGES]
    : [RESPONSE, 0]
  const partition = textPartition(batch.bucket)
  await client.query(
    `insert into ${partition} (bucket, batch_id, idx, prompt, response, ground_truth, extra_info, encoding)
     select $2::date, $1, idx, 'Seeded prompt ' || p || ': what is ' || p || ' + ' || p % 97 || '?',
       ${response}, to_json(${sumOf('p')}::text)::text, null, ${encoding}
     from (select idx, verdict, ${run.isCorrect} as is_correct, ($4::bigint + group_no) % $5::bigint as p
           from sample where batch_id = $1) s`,
    [id, batch.bucket, batch.step, ...prompts, ...(run.isAgent ? [[...IMAGES.keys()]] : [])],
  )
  if (run.byTokens && batch.step === batch.steps) await client.query(tokensSql(partition), [id])
  await client.query(
    `insert into sample_group (batch_id, no, uid, received, ended, failed, seq, completed_at, prompt_key)
     select $1, group_no, 'p' || ($2::bigint + group_no) % $3::bigint, n, n, failed,
       row_number() over (order by last, group_no), last,
       decode(md5('p' || ($2::bigint + group_no) % $3::bigint), 'hex')
     from (select group_no, count(*)::int as n, (count(*) filter (where status = 3))::int as failed, max(ended_at) as last
           from sample where batch_id = $1 group by 1) t`,
    [id, ...prompts],
  )
  await client.query(
    `update batch set scored = t.scored, failed = t.failed, retries = t.retries, started_at = t.started, completed_at = t.ended,
       groups = g.n, groups_completed = g.n, mean = t.mean, std = t.std, min = t.min, max = t.max
     from (select count(*) filter (where status = 2) as scored, count(*) filter (where status = 3) as failed,
                  sum(attempts - 1) as retries, min(dispatched_at) as started, max(ended_at) as ended,
                  avg(score) as mean, stddev_samp(score) as std, min(score) as min, max(score) as max
           from sample where batch_id = $1) t, (select count(*) as n from sample_group where batch_id = $1) g
     where id = $1`,
    [id],
  )
  if (run.isAgent) await storeImages(client, id, IMAGES)
}

const IMAGES = seededImages()

/**
 * SQL that adds token scores to the first samples of batch $1: one score per word, including the space before the word.
 */
function tokensSql(partition: string): string {
  return `
    update sample s set rewards = json_build_object('turns', '[]'::json, 'spans', '[]'::json,
      'tokens', json_build_array(json_build_object('component', null, 'message', 0, 'starts', t.starts, 'ends', t.ends,
        'scores', t.scores, 'omitted', 0, 'problem', null)))
    from (select idx, json_agg(ends - size order by n) as starts, json_agg(ends order by n) as ends,
            json_agg(case when n = words then score else round(sin(n * 1.7 + idx)::numeric * 2 - 0.4, 4) end order by n) as scores
          from (select x.idx, w.n, length(w.word[1]) as size, x.score,
                  sum(length(w.word[1])) over (partition by x.idx order by w.n) as ends, count(*) over (partition by x.idx) as words
                from sample x join ${partition} r on r.batch_id = x.batch_id and r.idx = x.idx,
                  lateral regexp_matches(r.response, '\\s*\\S+', 'g') with ordinality w(word, n)
                where x.batch_id = $1 and x.idx < ${TOKEN_SCORED} and x.status = 2) words
          group by idx) t
    where s.batch_id = $1 and s.idx = t.idx`
}

function cumulative(shares: readonly number[]): number[] {
  let sum = 0
  return shares.map((share) => {
    sum += share
    return sum
  })
}

/** SQL for a uniform number in [0, 1), derived from a key and a purpose. */
function uniform(key: string, purpose: number): string {
  return `((hashint8extended(${key}, $4::bigint * 64 + ${purpose}) >> 11) & 9007199254740991)::float8 / 9007199254740992.0`
}

/** SQL for a standard normal number (Box–Muller). */
function normal(key: string, purpose: number): string {
  return `sqrt(-2 * ln(greatest(1e-12, ${uniform(key, purpose)}))) * cos(2 * pi() * ${uniform(key, purpose + 1)})`
}

function samplesSql({ run }: SeededBatch): string {
  const sample = `($1::bigint << 24) + i`
  const extracted = run.extracts
    ? `case when verdict <> 'no answer' then ${answerOf('prompt', 'i')}::text end`
    : 'null::text'
  return `
    insert into sample (batch_id, idx, group_no, status, attempts, data_source, response_length, score, raw_score, reason,
      verdict, extracted, reward_extra, rewards, queue_ms, score_ms, server_id, dispatched_at, ended_at, failed_tool_calls)
    select $1, i, i / $3, case when reason is null then 2 else 3 end, attempts, data_source, tokens,
      case when reason is null then score end, case when reason is null then score end, reason,
      case when reason is null then verdict end,
      case when reason is null then extracted end,
      case when reason is null then ${run.extra ?? 'null::json'} end,
      case when reason is null then ${run.rewards ?? 'null::json'} end, queue_ms, score_ms, server_id,
      to_timestamp(($13::float8 + queue_ms) / 1000), to_timestamp(($13::float8 + queue_ms + score_ms) / 1000),
      ${run.isAgent ? `${hasFailedCall('i')}::int` : 'null'}
    from (
      select *, ${run.score} as score,
          (service_ms * case when server_id = ($14::int[])[array_length($14::int[], 1)] then ${SLOW_FACTOR} else 1 end)::real as score_ms
        from (
        select i, prompt, $5::float8 as skill,
          -- A prompt has the same difficulty and data source in every epoch.
          ${normal('prompt', 0)} - $19::float8 * (${FORGOTTEN})::int as ease, ${normal(sample, 2)} as luck, ${uniform(sample, 4)} as u,
          ${uniform(sample, 15)} < $15::float8 as unmarked, $16::float8 as drift,
          ($7::text[])[least(array_length($7::text[], 1), 1 + (select count(*) from unnest($6::float8[]) c where c <= d.u))] as data_source,
          ($9::text[])[1 + (select count(*) from unnest($8::float8[]) c where c <= f.u)] as reason,
          greatest(1, ($12::float8 * exp(0.5 * ${normal(sample, 7)} - 0.125)))::int as tokens,
          (15 + i * 0.35 + 40 * ${uniform(sample, 9)})::real as queue_ms,
          ($10::float8 * exp($11::float8 * ${normal(sample, 10)}))::real as service_ms,
          1 + (${uniform(sample, 12)} < 0.008)::int + (${uniform(sample, 13)} < 0.001)::int as attempts,
          ($14::int[])[1 + floor(array_length($14::int[], 1) * ${uniform(sample, 14)})::int] as server_id
        from generate_series(0, $2::int - 1) i,
          lateral (select ($17::bigint + i / $3) % $18::bigint as prompt) p,
          lateral (select ${uniform('prompt', 5)} as u) d,
          lateral (select ${uniform(sample, 6)} as u) f
        offset 0
      ) drawn
      offset 0
    ) t,
      lateral (select ${run.verdict ?? 'null::text'} as verdict) v,
      lateral (select ${run.isCorrect} as is_correct) c,
      lateral (select ${extracted} as extracted) e`
}
