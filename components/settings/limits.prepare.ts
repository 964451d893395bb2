import type { RunLimitValues } from '../../server/contract/limits.ts'

/** The limit fields in display order. */
export const LIMIT_FIELDS = [
  {
    name: 'maxQueuedSamples',
    label: 'Queued samples',
    hint: 'Accepted samples that have not ended, over all batches of the run. Submissions beyond the limit are refused and can be retried later.',
  },
  {
    name: 'maxOpenBatches',
    label: 'Active batches',
    hint: 'Batches that are open or running.',
  },
  {
    name: 'maxPriority',
    label: 'Max priority',
    hint: 'From −100 to 100. The default of a batch is 0.',
  },
] as const satisfies readonly { name: keyof RunLimitValues; label: string; hint: string }[]

/** The field values. */
export type LimitDraft = Record<keyof RunLimitValues, string>

const BOUNDS: Record<keyof RunLimitValues, [least: number, most: number]> = {
  maxQueuedSamples: [0, 2_000_000_000],
  maxOpenBatches: [0, 1_000_000],
  maxPriority: [-100, 100],
}

/** Limits as field texts; no limit is an empty field. */
export function limitDraft(values: RunLimitValues): LimitDraft {
  const text = (value: number | null) => (value === null ? '' : String(value))
  return {
    maxQueuedSamples: text(values.maxQueuedSamples),
    maxOpenBatches: text(values.maxOpenBatches),
    maxPriority: text(values.maxPriority),
  }
}

/** Parses the fields, or returns their errors. Spaces, points and commas between digits are ignored. */
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
      errors[name] =
        `Enter a whole number from ${least} to ${most.toLocaleString('en')}, or leave it empty.`
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
