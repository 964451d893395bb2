'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { PoolShareDto, ServerMonitorDto } from '../../server/wire/server-detail.ts'
import type { ServerDto } from '../../server/wire/servers.ts'
import { useTRPC } from '../api/trpc.ts'
import {
  formatCount,
  formatDuration,
  formatPercent,
  formatRate,
  plural,
  quantityText,
} from '../format/numbers.ts'
import { shortenMiddle } from '../format/text.ts'
import { ActionMenu } from '../ui/action-menu.tsx'
import { CopyText } from '../ui/copy-text.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { EditSheet } from './edit-sheet.tsx'
import { useServerActions } from './server-actions.tsx'
import {
  HealthCell,
  LoadBar,
  SelfTestCell,
  ServerName,
  ShareCell,
  StateSince,
  Tags,
} from './server-cells.tsx'
import { serverNotes } from './server-notes.prepare.ts'
import { ServerNotes } from './server-notes.tsx'
import { ENGINE_WORDS, imbalanceWords, ratesWords } from './server-words.ts'

const COLUMNS = 12

/** The servers of a model, which share its calls. */
export function Pool({
  model,
  servers,
  monitors,
  marked,
}: {
  model: string
  servers: ServerDto[]
  monitors: readonly ServerMonitorDto[]
  marked: string | null
}) {
  const pool = usePool(servers)
  const rate = servers.reduce((sum, server) => sum + server.requestsPerSecond, 0)
  const ready = servers.filter((server) => server.state === 'ready').length
  return (
    <Section
      title={<CopyText text={model} most={48} className="text-sm" />}
      note={
        <span className="flex flex-wrap items-center gap-x-2">
          <span>
            {servers.length === 1
              ? '1 server'
              : `${plural(servers.length, 'server')}, ${formatCount(ready)} ready`}
          </span>
          <span aria-hidden>·</span>
          <span>{formatRate(rate)} req/s</span>
          {pool && servers.length > 1 && (
            <>
              <span aria-hidden>·</span>
              <Imbalance imbalance={pool.imbalance} />
            </>
          )}
        </span>
      }
      className="border-b pb-3"
    >
      <Scroll label={`Servers of ${model}`}>
        <table className="grid-table">
          <thead>
            <tr>
              <th scope="col">Server</th>
              <th scope="col">State</th>
              <th scope="col">Self-test</th>
              <th scope="col">Health</th>
              <th scope="col">In flight</th>
              <th scope="col" className="end">
                Req/s
              </th>
              <th scope="col" className="end">
                p50
              </th>
              <th scope="col" className="end">
                p99
              </th>
              <th scope="col" className="end">
                Errors
              </th>
              <th scope="col">Calls of capacity</th>
              <th scope="col" className="end">
                A minute
              </th>
              <th scope="col">
                <span className="sr-only">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {servers.map((server) => (
              <ServerRow
                key={server.id}
                server={server}
                part={pool?.shares.find((share) => share.id === server.id) ?? null}
                monitors={monitors}
                marked={server.id === marked || server.name === marked}
              />
            ))}
          </tbody>
        </table>
      </Scroll>
    </Section>
  )
}

/** What the pool's servers get and can do, read with the page of its first. */
function usePool(
  servers: readonly ServerDto[],
): { shares: PoolShareDto[]; imbalance: number | null } | null {
  const trpc = useTRPC()
  const first = servers[0]
  const detail = useQuery(
    trpc.servers.get.queryOptions(
      { id: first?.id ?? '' },
      {
        enabled: first !== undefined,
        meta: { topics: ['servers'] },
        placeholderData: keepPreviousData,
      },
    ),
  )
  return detail.data ? { shares: detail.data.pool, imbalance: detail.data.imbalance } : null
}

function Imbalance({ imbalance }: { imbalance: number | null }) {
  return (
    <span
      className={imbalance !== null && imbalance >= 2 ? 'text-warn' : ''}
      title="The most that a server gets of the calls beside its part of the capacity, over the last 10 minutes"
    >
      {imbalance === null ? 'no calls in 10 min' : `balance ${imbalanceWords(imbalance)}`}
    </span>
  )
}

function ServerRow({
  server,
  part,
  monitors,
  marked,
}: {
  server: ServerDto
  part: PoolShareDto | null
  monitors: readonly ServerMonitorDto[]
  marked: boolean
}) {
  const [editing, setEditing] = useState(false)
  const actions = useServerActions(server, { onEdit: () => setEditing(true) })
  const notes = serverNotes(server, monitors)
  const rates = ratesWords(server)
  const more = notes.length > 0 || actions.refusal
  return (
    <>
      <tr
        aria-current={marked || undefined}
        data-server={server.name}
        className={`${marked ? '[&>td]:bg-selected' : ''} [&>td]:h-11 ${more ? '[&>td]:border-b-0' : ''}`}
      >
        <td className="max-w-64">
          <span className="block leading-[17px]">
            <span className="flex items-center gap-2">
              <ServerName name={server.name} id={server.id} />
              <Tags tags={server.tags} />
            </span>
            <span className="block truncate pl-4 text-2xs text-ink-3" title={server.url}>
              {ENGINE_WORDS[server.engine]}
              {server.version && ` ${server.version}`} ·{' '}
              <span className="font-mono">
                {shortenMiddle(server.url.replace(/^https?:\/\//, ''), 28)}
              </span>
            </span>
          </span>
        </td>
        <td>
          <StateSince server={server} />
        </td>
        <td>
          <SelfTestCell test={server.selfTest} />
        </td>
        <td>
          <HealthCell health={server.health} />
        </td>
        <td>
          <span className="block leading-[17px]">
            <LoadBar server={server} />
            <span className="block text-2xs text-ink-3">
              {server.limitGiven ? 'limit given' : 'limit measured'}
            </span>
          </span>
        </td>
        <td className="num end">{formatRate(server.requestsPerSecond)}</td>
        <td className="end">
          <Quantity of={formatDuration(server.p50Ms)} />
        </td>
        <td className="end">
          <Quantity of={formatDuration(server.p99Ms)} />
        </td>
        <td
          className="num end"
          title={`${formatCount(server.requests)} calls, ${formatCount(server.retries)} of them made again, since it is registered`}
        >
          {server.errors === 0 ? (
            <span className="text-ink-3">{server.requests === 0 ? '–' : '0'}</span>
          ) : (
            <>
              {formatCount(server.errors)}
              <span className="unit">
                &nbsp;{quantityText(formatPercent(Math.min(1, server.errors / server.requests)))}
              </span>
            </>
          )}
        </td>
        <td>
          <ShareCell
            name={server.name}
            requestShare={server.share}
            capacityShare={part?.capacityShare ?? null}
          />
        </td>
        <td className={`num end text-xs ${rates ? '' : 'text-ink-3'}`}>{rates ?? '–'}</td>
        <td className="end">
          <ActionMenu label={`Actions for ${server.name}`} actions={actions.menu} />
          {actions.windows}
          <EditSheet server={editing ? server : null} onClose={() => setEditing(false)} />
        </td>
      </tr>
      {more && (
        <tr className={marked ? '[&>td]:bg-selected' : ''} data-notes={server.name}>
          <td colSpan={COLUMNS} className="h-auto! pb-1 pl-9! whitespace-normal!">
            {notes.length > 0 && <ServerNotes notes={notes} inset />}
            {actions.refusal}
          </td>
        </tr>
      )}
    </>
  )
}
