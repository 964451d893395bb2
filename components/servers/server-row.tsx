'use client'

import { useState } from 'react'
import { ENGINES } from '../../server/contract/engines.ts'
import { isTrusted } from '../../server/contract/self-test-verdict.ts'
import type { PoolShareDto, ServerMonitorDto } from '../../server/contract/server-detail.ts'
import type { ServerDto } from '../../server/contract/servers.ts'
import { formatCount, formatDuration, formatRate } from '../format/numbers.ts'
import { shortenMiddle } from '../format/text.ts'
import { ActionMenu } from '../ui/action-menu.tsx'
import type { ColumnHead } from '../ui/column-heads.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { ServerStateView } from '../ui/status.tsx'
import { EditSheet } from './edit-sheet.tsx'
import { useServerActions } from './server-actions.tsx'
import {
  ErrorShare,
  HealthCell,
  LoadBar,
  SelfTestCell,
  ServerName,
  ShareCell,
  StateSince,
  Tags,
} from './server-cells.tsx'
import { type ServerNote, serverNotes } from './server-notes.prepare.ts'
import { ServerNotes } from './server-notes.tsx'
import { ratesWords } from './server-words.ts'

const SHARES_TITLE =
  'Share of the pool’s requests in the last 10 minutes, and share of its capacity'

/** The columns of a pool's table. Widths are the same for all pools; the name takes the remaining width. */
export const POOL_COLUMNS: readonly { head: ColumnHead; width?: number }[] = [
  { head: 'Server' },
  { head: 'State', width: 108 },
  { head: 'Self-test', width: 120 },
  { head: 'Health', width: 112 },
  {
    head: {
      start: 'In flight',
      title:
        'Requests in flight and their limit. Each sample of a micro-batch counts as one request.',
    },
    width: 106,
  },
  { head: { end: 'Req/s' }, width: 50 },
  { head: { end: 'p50' }, width: 62 },
  { head: { end: 'p99' }, width: 62 },
  { head: { end: 'Errors', title: 'Share of failed requests, last 10 minutes' }, width: 84 },
  {
    head: {
      start: 'Requests / capacity',
      title: SHARES_TITLE,
    },
    width: 140,
  },
  { head: { end: 'Rate limit' }, width: 84 },
  { head: { hidden: 'Actions' }, width: 52 },
]

interface ServerRowProps {
  server: ServerDto
  /** The share of the server in its pool. Null until it is known, and for a single server. */
  part: PoolShareDto | null
  monitors: readonly ServerMonitorDto[]
  marked: boolean
}

export function ServerRow({ server, part, monitors, marked }: ServerRowProps) {
  const [editing, setEditing] = useState(false)
  const actions = useServerActions(server, { onEdit: () => setEditing(true) })
  const notes = rowNotes(server, monitors)
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
              {ENGINES[server.engine].label}
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
          <HealthCell server={server} monitors={monitors} />
        </td>
        <td>
          <span className="block leading-[17px]">
            <LoadBar server={server} />
            <span className="block text-2xs text-ink-3">
              {server.hasFixedLimit ? 'Fixed limit' : 'Adaptive limit'}
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
          title={`${formatCount(server.requests)} requests since registration, ${formatCount(server.errors)} failed, ${formatCount(server.retries)} were retries`}
        >
          <ErrorShare server={server} />
        </td>
        <td>
          <ShareCell
            name={server.name}
            requestShare={part?.requestShare ?? null}
            capacityShare={part?.capacityShare ?? null}
          />
        </td>
        <td className={`num end text-xs leading-[17px] ${rates.length > 0 ? '' : 'text-ink-3'}`}>
          {rates.length === 0
            ? '–'
            : rates.map((rate) => (
                <span key={rate} className="block">
                  {rate}
                </span>
              ))}
        </td>
        <td className="end">
          <ActionMenu label={`Actions for ${server.name}`} actions={actions.menu} />
          {actions.windows}
          <EditSheet server={editing ? server : null} onClose={() => setEditing(false)} />
        </td>
      </tr>
      {more && (
        <tr className={marked ? '[&>td]:bg-selected' : ''} data-notes={server.name}>
          <td colSpan={POOL_COLUMNS.length} className="h-auto! pb-1 pl-9! whitespace-normal!">
            {/* The table may be wider than the screen; the text must not be. */}
            <div className="max-w-[calc(100vw-300px)]">
              {notes.length > 0 && <ServerNotes notes={notes} inset />}
              {actions.refusal}
            </div>
          </td>
        </tr>
      )}
    </>
  )
}

export function ServerBlock({ server, part, monitors, marked }: ServerRowProps) {
  const [editing, setEditing] = useState(false)
  const actions = useServerActions(server, { onEdit: () => setEditing(true) })
  const notes = rowNotes(server, monitors)
  const untrusted = server.selfTest !== null && !isTrusted(server.selfTest.verdict)
  return (
    <li
      data-server={server.name}
      aria-current={marked || undefined}
      className={`border-b px-5 py-2.5 last:border-0 ${marked ? 'bg-selected' : ''}`}
    >
      <div className="flex items-center gap-3">
        <span className="flex min-w-0 items-center gap-2">
          <ServerName name={server.name} id={server.id} />
          <Tags tags={server.tags} />
        </span>
        <span className="ml-auto flex shrink-0 items-center gap-1.5">
          <ServerStateView server={server} />
          <ActionMenu label={`Actions for ${server.name}`} actions={actions.menu} />
        </span>
      </div>
      <dl className="mt-1 grid grid-cols-[58px_minmax(0,1fr)_44px_auto] items-center gap-x-2 gap-y-0.5 text-xs [&_dt]:text-ink-3">
        <dt>In flight</dt>
        <dd>
          <LoadBar server={server} />
        </dd>
        <dt>Req/s</dt>
        <dd className="num text-right">{formatRate(server.requestsPerSecond)}</dd>
        <dt>p50, p99</dt>
        <dd className="num">
          <Quantity of={formatDuration(server.p50Ms)} />,{' '}
          <Quantity of={formatDuration(server.p99Ms)} />
        </dd>
        <dt>Errors</dt>
        <dd className="num text-right">
          <ErrorShare server={server} />
        </dd>
        {part && (
          <>
            <dt title={SHARES_TITLE}>Requests / capacity</dt>
            <dd>
              <ShareCell
                name={server.name}
                requestShare={part.requestShare}
                capacityShare={part.capacityShare}
              />
            </dd>
            <dt>Health</dt>
            <dd className="text-right">
              <HealthCell server={server} monitors={monitors} />
            </dd>
          </>
        )}
        {untrusted && (
          <>
            <dt>Self-test</dt>
            <dd className="col-span-3">
              <SelfTestCell test={server.selfTest} />
            </dd>
          </>
        )}
      </dl>
      {notes.length > 0 && <ServerNotes notes={notes} inset />}
      {actions.refusal}
      {actions.windows}
      <EditSheet server={editing ? server : null} onClose={() => setEditing(false)} />
    </li>
  )
}

/** The notices of a server in a list. For a sleeping server, notices of level `info` are omitted. */
function rowNotes(server: ServerDto, monitors: readonly ServerMonitorDto[]): ServerNote[] {
  const notes = serverNotes(server, monitors)
  return server.state === 'sleeping' ? notes.filter(({ level }) => level !== 'info') : notes
}
