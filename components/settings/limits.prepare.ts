import type { RunLimitValues } from '../../server/wire/limits.ts'

/** The limits in the order they are shown, with their words. */
export const LIMIT_FIELDS = [
  {
    name: 'maxQueuedSamples',
    label: 'Samples waiting',
    hint: 'Accepted and not ended, over all its batches. A submit beyond it is asked to come back.',
  },
  {
    name: 'maxOpenBatches',
    label: 'Batches not ended',
    hint: 'Open or being scored.',
  },
  {
    name: 'maxPriority',
    label: 'Highest priority',
    hint: 'From −100 to 100; trainers ask for 0 unless they say otherwise.',
  },
] as const satisfies readonly { name: keyof RunLimitValues; label: string; hint: string }[]

/** What stands in the fields. */
export type LimitDraft = Record<keyof RunLimitValues, string>

const BOUNDS: Record<keyof RunLimitValues, [least: number, most: number]> = {
  maxQueuedSamples: [0, 2_000_000_000],
  maxOpenBatches: [0, 1_000_000],
  maxPriority: [-100, 100],
}

/** Limits as they are written in fields; none is an empty field. */
export function limitDraft(values: RunLimitValues): LimitDraft {
  const text = (value: number | null) => (value === null ? '' : String(value))
  return {
    maxQueuedSamples: text(values.maxQueuedSamples),
    maxOpenBatches: text(values.maxOpenBatches),
    maxPriority: text(values.maxPriority),
  }
}

/** What the fields say, or what is wrong with each. Spaces, points and commas between digits are left out. */
export function readLimits(
  draft: LimitDraft,
): { limits: RunLimitValues } | { errors: Partial<Record<keyof LimitDraft, string>> } {
  const errors: Partial<Record<keyof LimitDraft, string>> = {}
  const read = (name: keyof LimitDraft): number | null => {
    const text = draft[name].replaceAll('−', '-').replaceAll(/[\s,._]/g, '')
    if (text === '') return null
    const value = Number(text)
    const [least, most] = BOUNDS[name]
    if (!Number.isInteger(value) || value < least || value > most) {
      errors[name] = `A whole number from ${least} to ${most.toLocaleString('en')}, or nothing.`
    }
    return value
  }
  const limits = {
    maxQueuedSamples: read('maxQueuedSamples'),
    maxOpenBatches: read('maxOpenBatches'),
    maxPriority: read('maxPriority'),
  }
  return Object.keys(errors).length > 0 ? { errors } : { limits }
}
