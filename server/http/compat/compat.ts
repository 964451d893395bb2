import type { IncomingMessage, ServerResponse } from 'node:http'
import { whileKeyHolds } from '../../admin/key-end.ts'
import type { Modules } from '../../api/context.ts'
import { translateError } from '../../api/trpc.ts'
import { parseJsonText, utf8 } from '../../batches/accept/body-splitter.ts'
import { ScoreInput, type ScoreResult } from '../../contract/trainer.ts'
import { RewardOpsError } from '../../errors.ts'
import { nearestName } from '../../rewards/nearest-name.ts'
import type { Access } from '../access.ts'
import { MAX_PLAIN_BYTES, unpacked } from '../body.ts'
import { type CompatOptions, readCompatOptions, rewardOf } from './compat-options.ts'
import type { Dialect, DialectEnd, DialectSample } from './dialect.ts'
import { groupIdOf } from './group-id.ts'
import { nemoGym } from './nemo-gym.ts'
import { openrlhf } from './openrlhf.ts'
import { parseBody } from './parse-body.ts'
import { slime } from './slime.ts'
import { StepClock } from './step-clock.ts'

/** Where the dialects are answered. */
export const COMPAT_PATH = '/compat/'

/** The dialects there are. */
export const DIALECTS: readonly Dialect[] = [openrlhf, slime, nemoGym]

/** Samples one request may hold: each is a row with somebody waiting for it. */
const MAX_SAMPLES = 4_096
/** What stands in the answer of a protocol that says beside it that there is no score. */
const NO_REWARD = 0

/** What the dialects need. */
export interface CompatSources {
  access: Access
  /** Scores each sample, as `samples.score` does. */
  manager: Modules['manager']
  /** The highest step a run has; null: it has none. */
  lastStep(run: string): Promise<number | null>
  readiness: Modules['readiness']
}

/** Where a request of a dialect goes. */
interface Target {
  dialect: Dialect
  run: string
  /** Below the run's address: `` or as `/verify`. */
  rest: string
  key: string | null
}

/**
 * Trainers that speak to a remote reward server already, unchanged: `/compat/<dialect>/<run>`, with a key in the path where
 * keys are set and the trainer can send no header: `/compat/<dialect>/<run>/k/<key>`. What scores is said behind the `?`.
 * Each sample is one of `samples.score`, of the run's present step, its prompt's group.
 */
export function createCompat({ access, manager, lastStep, readiness }: CompatSources) {
  const clock = new StepClock(lastStep)

  return async function onCompat(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '/', 'http://localhost')
    const target = targetOf(url.pathname)
    const { dialect, run, rest } = target
    const { ended } = access.admit(req, 'dialects', target.key)
    const other = dialect.others[`${req.method} ${rest}`]
    if (other !== undefined) {
      send(res, typeof other === 'function' ? other(await jsonOf(req)) : other)
      return
    }
    if (rest !== dialect.scorePath) throw notThere(dialect, rest)
    if (req.method !== 'POST') {
      res.setHeader('allow', 'POST')
      throw new RewardOpsError('method_not_allowed', `${COMPAT_PATH}${dialect.name} takes POST.`)
    }
    const options = readCompatOptions(url.searchParams)
    const body = await jsonOf(req)
    const samples = dialect.read(body, options)
    if (samples.length > MAX_SAMPLES) {
      throw new RewardOpsError(
        'invalid_input',
        `The request has ${samples.length} samples, more than ${MAX_SAMPLES}.`,
        { hint: 'Send them in several requests, or by batches.submit.' },
      )
    }
    const gone = new AbortController()
    res.once('close', () => gone.abort())
    try {
      const { step, leave } = await clock.enter(run, options.stepGapMs)
      try {
        const inputs = samples.map((sample) => scoreInput(dialect, sample, run, step, options))
        const results = await whileKeyHolds(ended, gone.signal, (until) =>
          Promise.all(inputs.map((input) => manager.score(input, until))),
        )
        send(res, dialect.answer(body, endsOf(dialect, results, options), options))
      } finally {
        leave()
      }
    } catch (error) {
      throw translateError(error, readiness)
    }
  }
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
      throw new RewardOpsError('invalid_input', 'The address does not say what scores.', {
        hint: 'Add ?model=, ?function=, ?rule= or ?dataSource= to it: docs/dialects.md has examples.',
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

/** Throws `not_scored` where a sample failed, the protocol cannot say so, and nobody named a value for it. */
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
      throw new RewardOpsError('not_scored', `Sample ${result.id} has no score: ${told(result)}.`)
    }
    return { result, reward: onFailure, failed }
  })
}

/** Why it failed; the words of user code are not cut by ours. */
function told({ reason, detail }: ScoreResult): string {
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
    throw new RewardOpsError('invalid_input', 'The address names no run.', {
      hint: `Send the request to ${COMPAT_PATH}${dialect.name}/<run>${dialect.scorePath}.`,
    })
  }
  // The key stands behind the run, before what the peer appends by itself.
  const keyed = parts[0] === 'k' && parts[1] !== undefined
  const rest = (keyed ? parts.slice(2) : parts).filter((part) => part !== '')
  return {
    dialect,
    run: decoded(run),
    rest: rest.length === 0 ? '' : `/${rest.join('/')}`,
    key: keyed ? decoded(parts[1] as string) : null,
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new RewardOpsError('invalid_input', 'The address is not well escaped.', {
      hint: 'Write % as %25.',
    })
  }
}

function notThere(dialect: Dialect, rest: string): RewardOpsError {
  const there = [
    `POST ${dialect.scorePath || 'to the address itself'}`,
    ...Object.keys(dialect.others),
  ]
  return new RewardOpsError(
    'not_found',
    `There is nothing at ${rest.slice(0, 60) || 'the address itself'} of ${dialect.name}.`,
    { hint: `What the peer asks for is ${there.join(', ')}.` },
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
    'cache-control': 'no-store',
  })
  res.end(body)
}
