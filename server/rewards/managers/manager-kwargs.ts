import type { z } from 'zod'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import { rateLimitedOptions, readLimits } from '../limits/limit-settings.ts'
import { dapoManager } from './dapo.ts'
import { gdpoManager, gdpoOptions, readDimensions } from './gdpo.ts'
import { DAPO_KWARGS, readOverlongBuffer } from './overlong-buffer.ts'
import { rateLimitedManager } from './rate-limited.ts'
import { remoteManager, remoteOptions } from './remote.ts'

export type TakenKwargs<Value = unknown> =
  | {
      ok: true
      /** Kwargs of the rules or the reward function. */
      rest: Record<string, Value>
      /** Kwargs that the manager reads while it scores. */
      kept: Record<string, Value>
      own: readonly string[]
      limiter?: { name: string | null; limits: NonNullable<ResolvedReward['limiter']>['limits'] }
      gdpo?: NonNullable<ResolvedReward['gdpo']>
      /** Number of processes of the manager `remote`. */
      processes?: number
    }
  | { ok: false; message: string; hint: string }

const OWN_KWARGS: Record<string, readonly string[]> = {
  [dapoManager.name]: DAPO_KWARGS,
  [gdpoManager.name]: Object.keys(gdpoOptions.shape),
  [rateLimitedManager.name]: Object.keys(rateLimitedOptions.shape),
  [remoteManager.name]: Object.keys(remoteOptions.shape),
}

/**
 * Checks the manager's kwargs and separates them from those of the scorer. Called once per batch, with the manager's
 * name, not an alias.
 */
export function takeManagerKwargs<Value>(
  manager: string,
  kwargs: Record<string, Value>,
): TakenKwargs<Value> {
  const own = OWN_KWARGS[manager] ?? []
  const { mine, rest } = split(kwargs, own)
  const taken = { ok: true, rest, kept: {}, own } as const
  switch (manager) {
    case dapoManager.name: {
      const read = readOverlongBuffer(mine)
      return read.ok ? { ...taken, kept: mine } : read
    }
    case gdpoManager.name: {
      const read = reading(manager, gdpoOptions, () => readDimensions(mine))
      return read.ok ? { ...taken, gdpo: read.value } : read
    }
    case rateLimitedManager.name: {
      const { limiter: _, ...limits } = mine
      const read = reading(manager, rateLimitedOptions, () => ({
        name: rateLimitedOptions.parse(mine).limiter,
        limits: readLimits(limits),
      }))
      return read.ok ? { ...taken, limiter: read.value } : read
    }
    case remoteManager.name: {
      const read = reading(manager, remoteOptions, () => remoteOptions.parse(mine).num_workers)
      return read.ok ? { ...taken, processes: read.value } : read
    }
    default:
      return taken
  }
}

function split<Value>(kwargs: Record<string, Value>, own: readonly string[]) {
  const of = (mine: boolean) =>
    Object.fromEntries(Object.entries(kwargs).filter(([key]) => own.includes(key) === mine))
  return { mine: of(true), rest: of(false) }
}

function reading<Value>(
  manager: string,
  options: z.ZodObject,
  read: () => Value,
): { ok: true; value: Value } | { ok: false; message: string; hint: string } {
  try {
    return { ok: true, value: read() }
  } catch (error) {
    const issue = (error as z.ZodError).issues[0]!
    const path = issue.path.join('.')
    const option = options.shape[String(issue.path[0])] as z.ZodType | undefined
    return {
      ok: false,
      message: `kwarg "${path}" of manager ${manager} is not valid: ${issue.message}`,
      hint: `${option?.description ?? path}.`,
    }
  }
}
