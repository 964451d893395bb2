import type {
  RemovedDto,
  RetentionJobDto,
  RetentionPolicy,
} from '../../server/contract/retention.ts'
import { formatBytes, formatCount, plural, quantityText, readInteger } from '../format/numbers.ts'

export const RETENTION_FIELDS = [
  {
    name: 'textsDays',
    label: 'Texts',
    hint: 'Prompts, responses, ground truths and extra info. Scores and statistics are kept.',
  },
  {
    name: 'batchesDays',
    label: 'Whole batches',
    hint: 'Samples, groups and texts.',
  },
  {
    name: 'eventsDays',
    label: 'Events',
    hint: 'Server events, per-minute statistics, and attempts of retried or failed samples.',
  },
  { name: 'auditDays', label: 'Audit log', hint: 'Recorded changes, with their actors.' },
] as const satisfies readonly { name: keyof RetentionPolicy; label: string; hint: string }[]

export type AgeName = (typeof RETENTION_FIELDS)[number]['name']

interface RetentionDraft {
  ages: Record<AgeName, string>
  keepRollUps: boolean
}

/** A policy as field texts. An empty field means that data are kept forever. */
export function retentionDraft(policy: RetentionPolicy): RetentionDraft {
  const text = (days: number | null) => (days === null ? '' : String(days))
  return {
    ages: {
      textsDays: text(policy.textsDays),
      batchesDays: text(policy.batchesDays),
      eventsDays: text(policy.eventsDays),
      auditDays: text(policy.auditDays),
    },
    keepRollUps: policy.keepRollUps,
  }
}

export function readRetention(
  draft: RetentionDraft,
): { policy: RetentionPolicy } | { errors: Partial<Record<AgeName, string>> } {
  const errors: Partial<Record<AgeName, string>> = {}
  const read = (name: AgeName): number | null => {
    const text = draft.ages[name].trim()
    if (text === '') return null
    const days = readInteger(text)
    if (!Number.isInteger(days) || days < 1 || days > 36_500)
      errors[name] = 'Enter whole days, 1 or more, or leave it empty.'
    return days
  }
  const policy: RetentionPolicy = {
    textsDays: read('textsDays'),
    batchesDays: read('batchesDays'),
    keepRollUps: draft.keepRollUps,
    eventsDays: read('eventsDays'),
    auditDays: read('auditDays'),
  }
  return Object.keys(errors).length > 0 ? { errors } : { policy }
}

export function removedInWords(removed: RemovedDto & { eventsCapped?: boolean }): string {
  const parts: string[] = []
  if (removed.batches > 0 || removed.samples > 0) {
    parts.push(`${plural(removed.batches, 'batch', 'batches')} with ${samples(removed.samples)}`)
  }
  if (removed.textBatches > 0) {
    parts.push(`texts of ${plural(removed.textBatches, 'batch', 'batches')}`)
  }
  if (removed.events > 0) {
    const least = removed.eventsCapped ? 'at least ' : ''
    parts.push(`${least}${formatCount(removed.events)} old events`)
  }
  return parts.join(', ')
}

function samples(n: number): string {
  return plural(n, 'sample')
}

/**
 * The space that a removal frees, as text. Dropping a partition frees disk space immediately, whereas the space of
 * deleted rows stays with the database for reuse.
 */
export function spaceInWords({ freedBytes, reusableBytes, partitions }: RemovedDto): string {
  const parts: string[] = []
  if (freedBytes > 0) {
    parts.push(
      `${quantityText(formatBytes(freedBytes))} freed on disk immediately (${plural(partitions, 'day')} of texts)`,
    )
  }
  if (reusableBytes > 0) {
    parts.push(`about ${quantityText(formatBytes(reusableBytes))} reusable by the database`)
  }
  return parts.join(', ')
}

/** The progress of a removal, 0 to 1; null if it is unknown. */
export function progressOf({ removed, expected, state }: RetentionJobDto): number | null {
  if (state === 'done') return 1
  if (expected === null || expected.batches === 0) return null
  const bySamples = expected.samples > 0 ? removed.samples / expected.samples : null
  const byBatches = (removed.batches + removed.textBatches) / expected.batches
  return Math.min(1, bySamples ?? byBatches)
}
