'use client'

import type { ServerDetailDto } from '../../server/contract/server-detail.ts'
import { prepareBalance } from '../charts/balance.prepare.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { hueOf } from '../charts/hue.ts'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { plural } from '../format/numbers.ts'
import { Scroll } from '../ui/scroll.tsx'
import { stateLook } from '../ui/status.tsx'
import { imbalanceWords } from './server-words.ts'

const BalancePlot = lazyPlot(async () => (await import('../charts/fleet-plots.tsx')).BalancePlot)

/** Heights, px: the two bars of a server, and the axis. */
const ROW_PX = 34
const AXIS_PX = 40

export function BalanceChart({ server }: { server: ServerDetailDto }) {
  const data = prepareBalance(server.pool, server.imbalance)
  const { rows, meaning } = data
  const { imbalance } = server
  const height = ROW_PX * rows.length + AXIS_PX
  return (
    <ChartFrame
      title="Load balance"
      height={Math.min(480, Math.max(212, 60 + height))}
      note={
        <>
          <span
            className={imbalance !== null && imbalance >= 2 ? 'font-medium text-warn' : 'text-ink'}
          >
            {imbalanceWords(imbalance)}
          </span>
          , {plural(rows.length, 'server')}, last 10 min
        </>
      }
      legend={[
        { label: 'Share of requests', color: hueOf('server', server.name) },
        { label: 'Share of capacity', color: 'color-mix(in oklab, var(--ink-3) 50%, transparent)' },
      ]}
      chart={
        <Scroll label="Load balance chart" className="h-full overflow-y-auto">
          <p className="mb-1 text-ink-2">{meaning}</p>
          <div style={{ height }}>
            <BalancePlot data={data} />
          </div>
        </Scroll>
      }
      table={{
        head: ['Server', 'State', 'Request share', 'Capacity share', 'Requests ÷ capacity'],
        rows: rows.map((row) => [
          row.name,
          stateLook(row.state).text,
          row.requestText,
          row.capacityText,
          row.ratio === null ? '–' : row.ratio.toFixed(2),
        ]),
      }}
    />
  )
}
