import type { PoolShareDto } from '../../server/contract/server-detail.ts'
import { percentText } from '../format/numbers.ts'
import { stateLook } from '../ui/status.tsx'
import { shareTicks, type Tick } from './ticks.ts'

export interface BalanceRow {
  id: string
  name: string
  state: PoolShareDto['state']
  requestShare: number | null
  capacityShare: number
  requestText: string
  capacityText: string
  /** The label of the capacity bar: the share, or the state of a server without capacity. */
  capacityLabel: string
  /** Request share ÷ capacity share; null if there are no requests or no capacity. */
  ratio: number | null
}

export interface BalanceData {
  rows: BalanceRow[]
  /** Ticks of the shared scale, in percent. */
  ticks: Tick[]
  meaning: string
}

/**
 * Prepares the paired bars, sorted by server name. The scale ends just above the largest share, so that the bars of ten
 * equal servers remain visible.
 */
export function prepareBalance(
  pool: readonly PoolShareDto[],
  imbalance: number | null,
): BalanceData {
  const top = Math.max(0, ...pool.flatMap((s) => [s.requestShare ?? 0, s.capacityShare]))
  const rows = pool
    .map((server): BalanceRow => {
      const { id, name, state, requestShare, capacityShare } = server
      return {
        id,
        name,
        state,
        requestShare,
        capacityShare,
        requestText: percentText(requestShare),
        capacityText: percentText(capacityShare),
        capacityLabel: capacityShare > 0 ? percentText(capacityShare) : stateLook(state).text,
        ratio: requestShare === null || capacityShare === 0 ? null : requestShare / capacityShare,
      }
    })
    .sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }))
  return { rows, ticks: shareTicks(top), meaning: meaningOf(rows, imbalance) }
}

function meaningOf(rows: readonly BalanceRow[], imbalance: number | null): string {
  const able = rows.filter((row) => row.capacityShare > 0)
  if (able.length === 0) return 'No server of this pool is ready, so there is no capacity.'
  if (imbalance === null) return 'No requests in the last 10 minutes.'
  if (able.length === 1 && rows.length === 1)
    return 'The only server of the pool gets all requests.'
  if (imbalance <= 1.1)
    return 'Requests follow capacity: no server gets more than 1.1 times its share.'
  const worst = able.reduce((a, b) => ((b.ratio ?? 0) > (a.ratio ?? 0) ? b : a))
  const out = rows.find((row) => row.capacityShare === 0 && (row.requestShare ?? 0) > 0)
  return `${worst.name} gets ${imbalance.toFixed(1)} times its share of requests: ${worst.requestText} with ${worst.capacityText} of the capacity.${out ? ` ${out.name} has no capacity now but got requests earlier.` : ''}`
}
