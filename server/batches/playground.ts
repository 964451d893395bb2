import { modelsOf, type ResolvedReward } from '../contract/resolved-reward.ts'
import type { TriedDto, TryInput } from '../contract/rewards.ts'
import { RewardOpsError } from '../errors.ts'
import type { AcceptedFunctions } from '../rewards/functions/accepted-functions.ts'
import type { RewardSample, RewardTools } from '../rewards/managers/manager.ts'
import { resolveReward } from '../rewards/resolve.ts'
import { trySample } from '../rewards/trace/try-sample.ts'
import type { RouterServer } from '../router/router-types.ts'

/** Samples tried at once; each is a click of somebody. */
const AT_ONCE = 8
/** Of a comparison of math_verify, as by default. */
const MAX_RULE_MS = 100
/** For the router to end its calls by itself. */
const GRACE_MS = 250

/** Scores samples by hand, in the server process: by the managers, rules and router that workers have. Stores nothing. */
export class Playground {
  readonly #servers: () => readonly RouterServer[]
  readonly #functions: AcceptedFunctions
  readonly #tools: RewardTools
  readonly #onAsleep: (model: string) => void
  #under = 0

  constructor(options: {
    /** The registered servers. */
    servers: () => readonly RouterServer[]
    functions: AcceptedFunctions
    tools: RewardTools
    /** All servers of a model that is asked for sleep. */
    onAsleep: (model: string) => void
  }) {
    this.#servers = options.servers
    this.#functions = options.functions
    this.#tools = options.tools
    this.#onAsleep = options.onAsleep
  }

  /** Throws RewardOpsError as `batches.submit` does for a reward that cannot be; what fails after that is told. */
  async try(input: TryInput, signal?: AbortSignal): Promise<TriedDto> {
    if (this.#under >= AT_ONCE) {
      throw new RewardOpsError('busy', `${AT_ONCE} samples are already in the playground.`, {
        retryAfterMs: 1_000,
      })
    }
    this.#under++
    try {
      return await this.#try(input, signal)
    } finally {
      this.#under--
    }
  }

  async #try(input: TryInput, signal: AbortSignal | undefined): Promise<TriedDto> {
    const { sample, deadlineMs } = input
    const servers = this.#servers()
    const registered = (wanted: RouterServer['kind']) => [
      ...new Set(
        servers
          .filter(({ kind }) => (kind ?? 'discriminative') === wanted)
          .map(({ model }) => model),
      ),
    ]
    // Nothing is put to sleep after one sample, so whether it could be is no reason to refuse it.
    const spec = { ...input.reward, sleepAfter: false }
    const { versions } = await this.#functions.lookAt(spec)
    const resolved = resolveReward(spec, [sample.dataSource], {
      functions: versions,
      models: registered('discriminative'),
      judges: registered('generative'),
    })
    refuseLongRules(resolved.reward)
    for (const model of modelsOf(resolved.reward)) {
      const of = servers.filter((server) => server.model === model)
      if (of.length > 0 && of.every(({ state }) => state === 'sleeping')) this.#onAsleep(model)
    }
    return within(deadlineMs, signal, (until) =>
      trySample(toRewardSample(sample), resolved, this.#tools, { signal: until, deadlineMs }),
    )
  }
}

/** Throws `unsupported_setting` for a rule that may take longer than the server's loop, which trainers wait for, can be held. */
function refuseLongRules(reward: ResolvedReward): void {
  const { deadline_ms: deadlineMs } = reward.kwargs
  if (typeof deadlineMs === 'number' && deadlineMs > MAX_RULE_MS) {
    throw new RewardOpsError(
      'unsupported_setting',
      `reward.kwargs.deadline_ms: ${deadlineMs} is more than the ${MAX_RULE_MS} that a rule may take while it is tried.`,
      {
        hint: 'The playground runs rules in the server process. Workers, which score batches, allow more time.',
      },
    )
  }
  for (const part of reward.components ?? []) refuseLongRules(part.reward)
  if (reward.wraps !== undefined) refuseLongRules(reward.wraps)
}

/**
 * The router ends its calls by the deadline itself, and says which server had them. Functions and sandboxes know of no
 * deadline: what is still at work a moment later is called off, and has ended as `deadline`.
 */
async function within(
  deadlineMs: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<TriedDto>,
): Promise<TriedDto> {
  const late = AbortSignal.timeout(deadlineMs + GRACE_MS)
  const tried = await work(signal === undefined ? late : AbortSignal.any([signal, late]))
  if (tried.end.ok || tried.end.reason !== 'cancelled' || !late.aborted) return tried
  const detail = `not scored within ${deadlineMs} ms`
  return { ...tried, end: { ok: false, reason: 'deadline', detail } }
}

function toRewardSample(sample: TryInput['sample']): RewardSample {
  const { dataSource, prompt, response, groundTruth, extraInfo, responseLength } = sample
  return {
    dataSource,
    // A turn without content has an empty one, as when it is read from the tables.
    prompt:
      typeof prompt === 'string'
        ? prompt
        : prompt.map(({ role, content }) => ({ role, content: content ?? '' })),
    solutionStr: response,
    groundTruth: groundTruth ?? null,
    extraInfo: extraInfo ?? {},
    responseLength: responseLength ?? null,
  }
}
