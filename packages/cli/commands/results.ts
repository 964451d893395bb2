import type { ResultsColumns } from '../../../server/contract/trainer.ts'
import { defineCommand } from '../command.ts'
import { wholeNumber } from '../option-values.ts'
import { AWAY_MS, batchIdOf } from '../wait-batch.ts'

const PAGE_ROWS = 10_000
const SHOWN = 20

export const command = defineCommand({
  name: 'results',
  summary: 'list the rewards of a batch in the order of its samples',
  usage: 'BATCH [options]',
  details:
    'With --json, each sample is one JSON line, and all samples are listed unless --limit is given. To get rollouts with their rewards, use export.',
  positionals: { min: 1, max: 1 },
  options: {
    offset: { type: 'string', value: 'N', help: 'index of the first sample (default 0)' },
    limit: {
      type: 'string',
      value: 'N',
      help: `maximum number of rows (default ${SHOWN}; with --json all)`,
    },
  },
  async run({ values, positionals, output, service, signal }) {
    const batchId = batchIdOf(positionals[0] as string)
    const first = wholeNumber('offset', values.offset) ?? 0
    const limit =
      wholeNumber('limit', values.limit, 1) ?? (output.json ? Number.POSITIVE_INFINITY : SHOWN)
    const client = await service()
    const shown: (string | number | null)[][] = []
    for (let offset = first; offset < first + limit; offset += PAGE_ROWS) {
      const rows = Math.min(PAGE_ROWS, first + limit - offset)
      const page = await client.query<ResultsColumns>(
        'batches.results',
        { batchId, offset, limit: rows },
        { retryForMs: AWAY_MS, signal },
      )
      for (const [at, index] of page.index.entries()) {
        if (!output.json) {
          const { uid, status, score, reason } = page
          shown.push([
            index,
            uid[at] as string,
            status[at] as string,
            shortened(score[at]),
            shortened(page.advantage[at]),
            reason[at] ?? '',
          ])
          continue
        }
        output.data(rowOf(page, at))
      }
      if (page.index.length < rows) break
    }
    output.table(['INDEX', 'UID', 'STATUS', 'SCORE', 'ADVANTAGE', 'REASON'], shown)
    if (shown.length === limit)
      output.note('There may be more samples: use --limit N, --offset N, or --json for all.')
  },
})

/** Rounds a score to six digits for the text table; --json prints all digits. */
function shortened(score: number | null | undefined): number | null {
  return score === null || score === undefined ? null : Number(score.toPrecision(6))
}

function rowOf(page: ResultsColumns, at: number): Record<string, unknown> {
  const extra: Record<string, unknown> = {}
  for (const key of page.rewardExtraKeys) {
    const value = page.rewardExtraInfo[key]?.[at]
    if (value !== null && value !== undefined) extra[key] = value
  }
  const { rewardExtraKeys, ...columns } = page
  return Object.fromEntries(
    Object.entries(columns).map(([name, column]) => [
      name,
      Array.isArray(column) ? column[at] : extra,
    ]),
  )
}
