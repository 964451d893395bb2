import { modelsOf, type ResolvedReward } from '../contract/resolved-reward.ts'
import type { TriedDto, TryInput } from '../contract/rewards.ts'
import { RewardOpsError } from '../errors.ts'
import type { AcceptedFunctions } from '../rewards/functions/accepted-functions.ts'
import type { RewardSample, RewardTools } from '../rewards/managers/manager.ts'
import { requireSandbox, resolveReward } from '../rewards/resolve.ts'
import type { SandboxAccess } from '../rewards/sandboxes.ts'
import { trySample } from '../rewards/trace/try-sample.ts'
import type { RouterServer } from '../router/router-types.ts'

const MAX_TRIES = 8
/** Time limit of one rule, equal to math_verify's default for one comparison. */
const MAX_RULE_MS = 100
/** Time for the router to end its calls after the deadline, ms. */
const GRACE_MS = 250

/**
 * Scores samples on request in the server process, with the same managers, rules and router as workers. Stores
 * nothing.
 */
export class Playground {
  readonly #servers: () => readonly RouterServer[]
  readonly #functions: AcceptedFunctions
  readonly #sandboxes: SandboxAccess
  readonly #tools: RewardTools
  readonly #onAsleep: (model: string) => void
  #under = 0

  constructor(options: {
    servers: () => readonly RouterServer[]
    functions: AcceptedFunctions
    sandboxes: SandboxAccess
    tools: RewardTools
    /** Called when a requested model has only sleeping servers. */
    onAsleep: (model: string) => void
  }) {
    this.#servers = options.servers
    this.#functions = options.functions
    this.#sandboxes = options.sandboxes
    this.#tools = options.tools
    this.#onAsleep = options.onAsleep
  }

  /**
   * Scores one sample. Throws `busy`, and the errors of `batches.submit` for an invalid reward. Later failures are
   * part of the result.
   */
  async try(input: TryInput, signal?: AbortSignal): Promise<TriedDto> {
    if (this.#under >= MAX_TRIES) {
      throw new RewardOpsError('busy', `The playground is already scoring ${MAX_TRIES} samples.`, {
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
    // A try never puts a server to sleep, so `sleepAfter` is ignored.
    const spec = { ...input.reward, sleepAfter: false }
    const { versions } = await this.#functions.resolve(spec)
    const resolved = resolveReward(spec, [sample.dataSource], {
      functions: versions,
      models: registered('discriminative'),
      judges: registered('generative'),
      sandboxes: this.#sandboxes.named,
    })
    await requireSandbox(resolved.reward, this.#sandboxes.local)
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

/** Throws `unsupported_setting` for a rule that may block the server's event loop for too long. */
function refuseLongRules(reward: ResolvedReward): void {
  const { deadline_ms: deadlineMs } = reward.kwargs
  if (typeof deadlineMs === 'number' && deadlineMs > MAX_RULE_MS) {
    throw new RewardOpsError(
      'unsupported_setting',
      `reward.kwargs.deadline_ms: ${deadlineMs} is more than the ${MAX_RULE_MS} ms that the playground allows a rule.`,
      {
        hint: 'The playground runs rules in the server process. Workers, which score batches, allow more time.',
      },
    )
  }
  for (const component of reward.components ?? []) refuseLongRules(component.reward)
  if (reward.wraps !== undefined) refuseLongRules(reward.wraps)
}

/**
 * Runs `work` with a deadline. The router ends its own calls at the deadline and reports the servers that it called.
 * Functions and sandboxes that still run {@link GRACE_MS} later are cancelled, and the sample fails as `deadline`.
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
    // A message without content gets empty content, as when it is read from the database.
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
