import type { IncomingMessage, ServerResponse } from 'node:http'
import { whileKeyHolds } from '../../admin/key-end.ts'
import type { Modules } from '../../api/context.ts'
import { SURFACES } from '../../api/surfaces.ts'
import { translateError } from '../../api/trpc.ts'
import { failuresFor } from '../../api/upstream-text.ts'
import { parseJsonText, utf8 } from '../../batches/accept/body-splitter.ts'
import { ScoreInput, type ScoreResult } from '../../contract/trainer.ts'
import { RewardOpsError } from '../../errors.ts'
import { nearestName } from '../../rewards/nearest-name.ts'
import type { LastStep } from '../../store/sql/last-step.ts'
import type { Access } from '../access.ts'
import { MAX_PLAIN_BYTES, unpacked } from '../body.ts'
import { decodedPart } from '../decoded-part.ts'
import { callerGone } from '../refuse.ts'
import { type CompatOptions, readCompatOptions, rewardOf } from './compat-options.ts'
import type { Dialect, DialectEnd, DialectSample } from './dialect.ts'
import { groupIdOf } from './group-id.ts'
import { nemoGym } from './nemo-gym.ts'
import { openrlhf } from './openrlhf.ts'
import { parseBody } from './parse-body.ts'
import { slime } from './slime.ts'
import { StepClock } from './step-clock.ts'
import { type StartedScore, UnansweredScores } from './unanswered-scores.ts'

export const COMPAT_PATH = '/compat/'

export const DIALECTS: readonly Dialect[] = [openrlhf, slime, nemoGym]

/** Maximum number of samples in a request. It is limited because the caller waits for all samples. */
const MAX_SAMPLES = 4_096
/** Reward of a failed sample in protocols that report the failure in a separate field. */
const NO_REWARD = 0

const RunName = ScoreInput.pick({ run: true })

export interface CompatSources {
  access: Access
  scopes: Modules['scopes']
  manager: Modules['manager']
  /** Resolves to the last step of a run, or null if the run has none. */
  lastStep(run: string, gapMs: number): Promise<LastStep | null>
  readiness: Modules['readiness']
}

interface Target {
  dialect: Dialect
  run: string
  /** The path below the run's URL, such as `/verify`; may be empty. */
  rest: string
  key: string | null
}

/**
 * Serves unchanged trainers that already speak the protocol of a remote reward server, on `/compat/<dialect>/<run>`. A
 * trainer that cannot send headers puts its API key into the path: `/compat/<dialect>/<run>/k/<key>`. Each sample is
 * scored as by `samples.score`, in the current step of the run.
 */
export function createCompat({ access, scopes, manager, lastStep, readiness }: CompatSources) {
  const clock = new StepClock(lastStep)
  const unanswered = new UnansweredScores()
  const start = (input: ScoreInput): StartedScore => {
    const abandon = new AbortController()
    return { input, result: manager.score(input, abandon.signal), abandon }
  }

  return async function onCompat(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '/', 'http://localhost')
    const target = targetOf(url.pathname)
    const { dialect, run, rest } = target
    const holder = access.admit(req, 'dialects', target.key)
    if (holder.scope !== null) await scopes.check(holder, 'dialects', SURFACES.dialects, { run })
    const other = dialect.others[`${req.method} ${rest}`]
    if (other !== undefined) {
      send(res, typeof other === 'function' ? other(await jsonOf(req)) : other)
      return
    }
    if (rest !== dialect.scorePath) throw notThere(dialect, rest)
    if (req.method !== 'POST') {
      res.setHeader('allow', 'POST')
      throw new RewardOpsError(
        'method_not_allowed',
        `${COMPAT_PATH}${dialect.name} accepts only POST.`,
      )
    }
    const options = readCompatOptions(url.searchParams)
    const body = await jsonOf(req)
    const samples = dialect.read(body, options)
    if (samples.length > MAX_SAMPLES) {
      throw new RewardOpsError(
        'invalid_input',
        `The request has ${samples.length} samples, more than ${MAX_SAMPLES}.`,
        { hint: 'Send them in several requests, or with batches.submit.' },
      )
    }
    let scores: StartedScore[] = []
    res.once('close', () => {
      if (res.statusCode === 200 && res.writableFinished) return
      for (const score of scores) unanswered.keep(score)
    })
    const gone = callerGone(res)
    try {
      const { step, leave } = await clock.enter(parseBody(RunName, { run }).run, options.stepGapMs)
      try {
        gone.throwIfAborted()
        const inputs = samples.map((sample) => scoreInput(dialect, sample, run, step, options))
        const results = await whileKeyHolds(holder.ended, gone, (until) => {
          scores = inputs.map((input) => unanswered.take(input) ?? start(input))
          return unlessAborted(until, Promise.all(scores.map(({ result }) => result)))
        })
        const ends = endsOf(dialect, failuresFor(holder, results), options)
        send(res, dialect.answer(body, ends, options))
      } finally {
        leave()
      }
    } catch (error) {
      throw translateError(error, readiness)
    }
  }
}

/** @throws the reason of the signal if it aborts before the work ends */
function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason)
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    work.then(resolve, reject)
  })
}

function scoreInput(
  dialect: Dialect,
  { uid, dataSource, ...sample }: DialectSample,
  run: string,
  step: number,
  options: CompatOptions,
): ScoreInput {
  const { onFailure, split } = options
  const source = dataSource ?? options.dataSource
  const reward = rewardOf(options)
  if (source === undefined && options.model === undefined && options.function === undefined) {
    if (options.rule === undefined) {
      throw new RewardOpsError('invalid_input', 'The URL names no reward.', {
        hint: 'Add ?model=, ?function=, ?rule= or ?dataSource=; docs/dialects.md has examples.',
      })
    }
  }
  return parseBody(ScoreInput, {
    run,
    step,
    split,
    reward:
      onFailure === 'error' || dialect.carriesFailure
        ? reward
        : { ...reward, onFailure: { policy: 'constant', value: onFailure } },
    sample: { uid: uid ?? groupIdOf(sample.prompt), dataSource: source ?? dialect.name, ...sample },
  })
}

/**
 * Returns each result with the reward to send.
 * @throws RewardOpsError `not_scored` for a failed sample, unless the protocol reports failures, or the URL sets a
 * reward for failed samples
 */
function endsOf(
  dialect: Dialect,
  results: readonly ScoreResult[],
  { onFailure }: CompatOptions,
): DialectEnd[] {
  return results.map((result) => {
    const failed = result.status === 'failed' || result.score === null
    if (!failed) return { result, reward: result.score as number, failed }
    if (dialect.carriesFailure) return { result, reward: NO_REWARD, failed }
    if (onFailure === 'error') {
      throw new RewardOpsError(
        'not_scored',
        `Sample ${result.id} has no score: ${failureText(result)}.`,
      )
    }
    return { result, reward: onFailure, failed }
  })
}

function failureText({ reason, detail }: ScoreResult): string {
  return detail === null ? `${reason}` : `${reason}, ${detail.slice(0, 500)}`
}

function targetOf(pathname: string): Target {
  const [, , name = '', run = '', ...parts] = pathname.split('/')
  const dialect = DIALECTS.find((one) => one.name === name)
  if (dialect === undefined) {
    const known = DIALECTS.map((one) => one.name)
    const near = nearestName(name, known)
    throw new RewardOpsError(
      'not_found',
      `There is no dialect "${name.slice(0, 60)}". ${near ? `Did you mean ${near}? ` : ''}Known: ${known.join(', ')}.`,
    )
  }
  if (run === '') {
    throw new RewardOpsError('invalid_input', 'The URL names no run.', {
      hint: `Send the request to ${COMPAT_PATH}${dialect.name}/<run>${dialect.scorePath}.`,
    })
  }
  // In the path, the key follows the run name, and the path that trainers append follows the key.
  const keyed = parts[0] === 'k' && parts[1] !== undefined
  const rest = (keyed ? parts.slice(2) : parts).filter((part) => part !== '')
  return {
    dialect,
    run: decodedPart(run),
    rest: rest.length === 0 ? '' : `/${rest.join('/')}`,
    key: keyed ? decodedPart(parts[1] as string) : null,
  }
}

function notThere(dialect: Dialect, rest: string): RewardOpsError {
  const there = [`POST ${dialect.scorePath || 'to the URL itself'}`, ...Object.keys(dialect.others)]
  return new RewardOpsError(
    'not_found',
    `There is nothing at ${rest.slice(0, 60) || 'the URL itself'} of ${dialect.name}.`,
    { hint: `Available routes are ${there.join(', ')}.` },
  )
}

async function jsonOf(req: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  for await (const chunk of unpacked(req, MAX_PLAIN_BYTES)) chunks.push(chunk)
  return parseJsonText(utf8(Buffer.concat(chunks), 'the body'), 'the body')
}

function send(res: ServerResponse, answer: unknown): void {
  const body = JSON.stringify(answer)
  res.writeHead(200, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  })
  res.end(body)
}
