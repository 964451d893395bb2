'use client'

import type { ServerDetailDto } from '../../server/contract/server-detail.ts'
import { type BalanceRow, prepareBalance } from '../charts/balance.prepare.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { hueOf } from '../charts/hue.ts'
import { plural } from '../format/numbers.ts'
import { Scroll } from '../ui/scroll.tsx'
import { ServerStateView, stateLook } from '../ui/status.tsx'
import { ServerName } from './server-cells.tsx'
import { imbalanceWords } from './server-words.ts'

/** Request share and capacity share per server of the pool, with their meaning. */
export function BalanceChart({ server }: { server: ServerDetailDto }) {
  const { rows, meaning } = prepareBalance(server.pool, server.imbalance)
  const { imbalance } = server
  return (
    <ChartFrame
      title="Router balance"
      height={Math.min(480, Math.max(212, 72 + 27 * rows.length))}
      note={
        <span className="flex flex-wrap items-center gap-x-3">
          <span>
            <span
              className={
                imbalance !== null && imbalance >= 2 ? 'font-medium text-warn' : 'text-ink'
              }
            >
              {imbalanceWords(imbalance)}
            </span>
            , {plural(rows.length, 'server')}, last 10 min
          </span>
          <span className="flex items-center gap-1.5">
            <span
              className="size-2 rounded-[2px]"
              style={{ background: hueOf('server', server.name) }}
              aria-hidden
            />
            requests
          </span>
          <span className="flex items-center gap-1.5">
            <span className="size-2 rounded-[2px] bg-ink-3 opacity-50" aria-hidden />
            capacity
          </span>
        </span>
      }
      chart={
        <Scroll label="Router balance, bars" className="h-full overflow-y-auto">
          <p className="mb-2.5 text-ink-2">{meaning}</p>
          <ul className="space-y-2">
            {rows.map((row) => (
              <Pair key={row.id} row={row} own={row.id === server.id} />
            ))}
          </ul>
        </Scroll>
      }
      table={{
        head: ['Server', 'State', 'Requests', 'Capacity', 'Requests ÷ capacity'],
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

function Pair({ row, own }: { row: BalanceRow; own: boolean }) {
  const width = (share: number) => ({ width: `${share * 100}%` })
  return (
    <li className="grid grid-cols-[minmax(88px,140px)_minmax(0,1fr)_112px] items-center gap-x-3">
      <span className={`min-w-0 ${own ? 'font-medium' : ''}`}>
        <ServerName name={row.name} id={row.id} link={!own} />
      </span>
      <span className="flex flex-col gap-0.5" aria-hidden>
        <span
          className="block h-2.5 rounded-[1px]"
          style={{ ...width(row.requestWidth), background: hueOf('server', row.name) }}
        />
        <span
          className="block h-1.5 rounded-[1px] bg-ink-3 opacity-50"
          style={width(row.capacityWidth)}
        />
      </span>
      <span className="num text-right whitespace-nowrap">
        {row.capacityShare > 0 ? (
          <>
            {row.requestText}
            <span className="unit">&nbsp;/&nbsp;{row.capacityText}</span>
          </>
        ) : (
          <span className="text-xs">
            {(row.requestShare ?? 0) > 0 && `${row.requestText} `}
            <ServerStateView state={row.state} />
          </span>
        )}
      </span>
    </li>
  )
}
