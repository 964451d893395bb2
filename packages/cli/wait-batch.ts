import type { BatchSummary } from '../../server/contract/trainer.ts'
import { CliError, EXIT } from './exit-codes.ts'
import type { Output } from './output.ts'
import { number, showProgress } from './progress.ts'
import type { ServiceClient } from './service-client.ts'

/** Duration of a long poll. After each poll, the progress is updated. */
const POLL_MS = 500
/** Calls are retried this long while the service restarts. */
export const AWAY_MS = 60_000

/**
 * Waits until a batch ends, and shows its progress on stderr.
 * @returns the batch's summary, which is not final if `timeoutMs` passed first
 * @throws CliError
 */
export async function waitForBatch(
  client: ServiceClient,
  batchId: string,
  output: Output,
  signal: AbortSignal,
  timeoutMs: number | null,
): Promise<BatchSummary> {
  const until = timeoutMs === null ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs
  const progress = showProgress(batchId, output.stderr)
  for (;;) {
    const leftMs = until - performance.now()
    const summary = await client.query<BatchSummary>(
      'batches.wait',
      { batchId, waitMs: Math.max(0, Math.min(POLL_MS, leftMs)) },
      { retryForMs: AWAY_MS, signal },
    )
    const state = {
      done: summary.scored + summary.failed,
      total: summary.samples,
      note:
        `${number(summary.groupsCompleted)} of ${number(summary.groups)} groups` +
        (summary.failed > 0 ? `, ${number(summary.failed)} failed` : ''),
    }
    if (hasEnded(summary) || performance.now() >= until) {
      progress.end(state)
      return summary
    }
    progress.update(state)
  }
}

export function hasEnded({ status }: BatchSummary): boolean {
  return status === 'completed' || status === 'cancelled' || status === 'failed'
}

export function exitCodeOf(summary: BatchSummary, failOnFailed: boolean): number {
  if (!hasEnded(summary)) return EXIT.notYet
  if (summary.status !== 'completed') return EXIT.batchFailed
  return failOnFailed && summary.failed > 0 ? EXIT.batchFailed : EXIT.ok
}

export function summaryLines(summary: BatchSummary): string[] {
  const { batchId, run, step, split, status, samples, scored, failed, groups } = summary
  const n = (value: number | null) => (value === null ? '–' : String(Number(value.toPrecision(6))))
  return [
    `${batchId}  ${run}, step ${step} (${split}): ${status}, ${number(samples)} samples in ${number(groups)} groups, ` +
      `${number(scored)} scored, ${number(failed)} failed`,
    `reward ${summary.rewardName}: mean ${n(summary.mean)}, std ${n(summary.std)}, min ${n(summary.min)}, max ${n(summary.max)}`,
  ]
}

export function batchIdOf(given: string): string {
  if (!/^b\d{1,18}$/.test(given)) {
    throw new CliError(EXIT.badInput, `"${given}" is not a batch id such as "b12".`)
  }
  return given
}
