import type { RemovedDto, RetentionJobDto, RetentionPolicy } from '../../server/wire/retention.ts'
import { formatBytes, formatCount, plural, quantityText } from '../format/numbers.ts'

/** The ages of the policy in the order they are shown, with their words. */
export const RETENTION_FIELDS = [
  {
    name: 'textsDays',
    label: 'Texts',
    hint: 'Prompts, responses, ground truths and extra info. Scores and statistics stay.',
  },
  {
    name: 'batchesDays',
    label: 'Whole batches',
    hint: 'Samples, groups and texts.',
  },
  {
    name: 'eventsDays',
    label: 'Events',
    hint: 'Of servers, with their minutes, and attempts that failed.',
  },
  { name: 'auditDays', label: 'Audit list', hint: 'Who changed what.' },
] as const satisfies readonly { name: keyof RetentionPolicy; label: string; hint: string }[]

/** The name of an age. */
export type AgeName = (typeof RETENTION_FIELDS)[number]['name']

/** What stands in the fields. */
export interface RetentionDraft {
  ages: Record<AgeName, string>
  keepRollUps: boolean
}

/** A policy as it is written in fields; for good is an empty field. */
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

/** What the fields say, or what is wrong with each. */
export function readRetention(
  draft: RetentionDraft,
): { policy: RetentionPolicy } | { errors: Partial<Record<AgeName, string>> } {
  const errors: Partial<Record<AgeName, string>> = {}
  const read = (name: AgeName): number | null => {
    const text = draft.ages[name].trim()
    if (text === '') return null
    const days = Number(text)
    if (!Number.isInteger(days) || days < 1 || days > 36_500)
      errors[name] = 'Whole days, 1 or more, or nothing.'
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

/** What a removal takes, in words; empty where it takes nothing. */
export function removedInWords(removed: RemovedDto & { eventsCapped?: boolean }): string {
  const parts: string[] = []
  if (removed.batches > 0 || removed.samples > 0) {
    parts.push(`${plural(removed.batches, 'batch', 'batches')} with ${samples(removed.samples)}`)
  }
  if (removed.textBatches > 0) {
    parts.push(`the texts of ${plural(removed.textBatches, 'batch', 'batches')}`)
  }
  if (removed.events > 0) {
    const more = removed.eventsCapped ? ' and more' : ''
    parts.push(`${formatCount(removed.events)}${more} old events`)
  }
  return parts.join(', ')
}

function samples(n: number): string {
  return plural(n, 'sample')
}

/** What it gives back, told as it is: a dropped day is free at once, deleted rows are not. */
export function spaceInWords({ freedBytes, reusableBytes, partitions }: RemovedDto): string {
  const parts: string[] = []
  if (freedBytes > 0) {
    parts.push(
      `${quantityText(formatBytes(freedBytes))} given back to the disk at once (${plural(partitions, 'day')} of texts)`,
    )
  }
  if (reusableBytes > 0) {
    parts.push(
      `about ${quantityText(formatBytes(reusableBytes))} that the database keeps and writes over`,
    )
  }
  return parts.join(', ')
}

/** How far a removal is, 0 to 1; null where it is not known. */
export function progressOf({ removed, expected, state }: RetentionJobDto): number | null {
  if (state === 'done') return 1
  if (expected === null || expected.batches === 0) return null
  const bySamples = expected.samples > 0 ? removed.samples / expected.samples : null
  const byBatches = (removed.batches + removed.textBatches) / expected.batches
  return Math.min(1, bySamples ?? byBatches)
}
