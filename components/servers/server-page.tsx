'use client'

import { useQuery } from '@tanstack/react-query'
import { Check, CircleX, RefreshCw, ServerOff, TriangleAlert } from 'lucide-react'
import { useRouter } from 'next/navigation'
import { useMemo } from 'react'
import { ENGINES } from '../../server/contract/engines.ts'
import type { MonitorKind, ServerDetailDto } from '../../server/contract/server-detail.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { prepareServerMinutes } from '../charts/server-minutes.prepare.ts'
import { formatCount } from '../format/numbers.ts'
import { useLive, useNow } from '../live/live-provider.tsx'
import { useMayRead } from '../session/use-may.ts'
import { useKeys } from '../shell/keys.tsx'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { ActionMenu } from '../ui/action-menu.tsx'
import { Ago } from '../ui/ago.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { CopyText } from '../ui/copy-text.tsx'
import { Empty } from '../ui/empty.tsx'
import { FigureStripSkeleton } from '../ui/figure-strip.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Section } from '../ui/section.tsx'
import { ChartSkeleton, TableSkeleton } from '../ui/skeleton.tsx'
import { ServerStateView } from '../ui/status.tsx'
import { type UrlCodec, useUrl } from '../url/use-url.ts'
import { EditSheet } from './edit-sheet.tsx'
import { SelfTestSection } from './self-test-section.tsx'
import { type ServerActions, useServerActions } from './server-actions.tsx'
import { BalanceChart } from './server-balance.tsx'
import { AwakeOr, ServerName, Tags } from './server-cells.tsx'
import { ServerFigures } from './server-figures.tsx'
import { type EventKind, ServerHistory } from './server-history.tsx'
import { ServerLog } from './server-log.tsx'
import { CallsChart, LatencyChart } from './server-minutes.tsx'
import { serverNotes } from './server-notes.prepare.ts'
import { ServerNotes } from './server-notes.tsx'
import { ServerProcesses } from './server-processes.tsx'
import { KIND_WORDS, MONITOR_WORDS, ROUTE_WORDS, ratesWords } from './server-words.ts'

interface ServerView {
  edit: boolean
  events: EventKind
}

const serverView: UrlCodec<ServerView> = {
  parse: (params) => {
    const events = params.get('events')
    return {
      edit: params.get('edit') === '1',
      events: events === 'state' || events === 'health' || events === 'process' ? events : 'all',
    }
  },
  write(view) {
    const params = new URLSearchParams()
    if (view.edit) params.set('edit', '1')
    if (view.events !== 'all') params.set('events', view.events)
    return params
  },
}

export function ServerPage({ serverRef }: { serverRef: { id: string } | { name: string } }) {
  const trpc = useTRPC()
  const detail = useQuery(
    trpc.servers.get.queryOptions(serverRef, { meta: { topics: ['servers'] } }),
  )
  // Without this check, the page would keep showing the last numbers of a removed server.
  const gone = detail.error !== null && describeFailure(detail.error).reason === 'server_not_found'
  if (detail.data && !gone) return <Loaded server={detail.data} />
  const called = 'name' in serverRef ? serverRef.name : serverRef.id
  return (
    <>
      <PageHeader parent={{ href: '/servers', label: 'Servers' }} title={called} />
      {gone ? (
        <Empty
          icon={ServerOff}
          title={`Server “${called}” not found`}
          actions={
            <>
              <PageLink href="/servers" className={buttonClass('plain', true)}>
                View servers
              </PageLink>
              <PageLink href="/servers?register=1" className={buttonClass('plain', true)}>
                Register server
              </PageLink>
            </>
          }
        >
          The server was never registered, or it was removed. Samples keep the name of the server
          that scored them.
        </Empty>
      ) : (
        <QueryView query={detail} skeleton={<ServerSkeleton />}>
          {() => null}
        </QueryView>
      )}
    </>
  )
}

function Loaded({ server }: { server: ServerDetailDto }) {
  const router = useRouter()
  const [view, setView] = useUrl(serverView)
  const actions = useServerActions(server, {
    onEdit: () => setView({ edit: true }, 'push'),
    onRemoved: () => router.push('/servers'),
  })
  useKeys(
    actions.menu
      .filter((action) => !action.disabled)
      .map((action) => ({
        key: null,
        label: `${action.label.replace(/…$/, '')}: ${server.name}`,
        group: 'This page',
        palette: 'page',
        run: action.onSelect,
      })),
  )
  return (
    <>
      <PageHeader
        parent={{ href: '/servers', label: 'Servers' }}
        title={<ServerName name={server.name} link={false} />}
        state={
          <>
            <ServerStateView server={server} />
            <span className="hidden text-ink-3 md:inline">
              <AwakeOr server={server} />
            </span>
          </>
        }
        actions={<HeaderActions server={server} actions={actions} />}
      />
      <Identity server={server} />
      <Body server={server} actions={actions} view={view} setView={setView} />
      {actions.windows}
      <EditSheet
        server={view.edit && actions.refused === null ? server : null}
        onClose={() => setView({ edit: false })}
      />
    </>
  )
}

function HeaderActions({ server, actions }: { server: ServerDetailDto; actions: ServerActions }) {
  const { state } = server
  return (
    <>
      {state === 'sleeping' ? (
        <Button
          small
          variant="primary"
          refused={actions.refused}
          onClick={() => actions.confirm('wake')}
        >
          Wake
        </Button>
      ) : (
        <Button
          refused={actions.refused}
          small
          busy={actions.probing}
          disabled={state === 'waking' || state === 'draining'}
          onClick={actions.probe}
        >
          <RefreshCw size={14} aria-hidden />
          <span className="max-sm:sr-only">{actions.probing ? 'Probing…' : 'Probe now'}</span>
        </Button>
      )}
      <ActionMenu label={`Actions for ${server.name}`} actions={actions.menu} />
    </>
  )
}

function Identity({ server }: { server: ServerDetailDto }) {
  const rates = ratesWords(server)
  return (
    <dl className="flex flex-wrap items-baseline gap-x-6 gap-y-1 border-b px-5 py-2.5 text-xs">
      <Fact label="URL">
        <CopyText text={server.url} maxChars={44} />
      </Fact>
      <Fact label="Engine">
        {ENGINES[server.engine].label}
        {server.version && <span className="unit"> {server.version}</span>}
        {server.launched && <span className="unit"> launched</span>}
      </Fact>
      <Fact label="Type">{KIND_WORDS[server.kind]}</Fact>
      <Fact label="Model">
        <CopyText text={server.model} maxChars={40} />
      </Fact>
      {server.route !== null && (
        <Fact label="Scoring route">
          {server.route}
          <span className="unit"> ({ROUTE_WORDS[server.route]})</span>
          {server.label !== null && <span className="unit"> label {server.label}</span>}
        </Fact>
      )}
      {server.maxModelLen !== null && (
        <Fact label="Max context">
          <span className="num">
            {formatCount(server.maxModelLen)}
            <span className="unit"> tokens</span>
          </span>
        </Fact>
      )}
      <Fact label="Last probe">
        <Ago at={server.lastProbeAt} />
      </Fact>
      <Fact label="Weight">
        <span className="num">{server.weight}</span>
      </Fact>
      {rates.length > 0 && (
        <Fact label="Rate limit">
          <span className="num">{rates.join(', ')}</span>
        </Fact>
      )}
      {server.tags.length > 0 && (
        <Fact label="Tags">
          <span className="inline-flex gap-1">
            <Tags tags={server.tags} />
          </span>
        </Fact>
      )}
    </dl>
  )
}

function Fact({ label, children }: { label: string; children: React.ReactNode }) {
  return (
    <div className="flex min-w-0 items-baseline gap-1.5">
      <dt className="text-ink-3">{label}</dt>
      <dd className="min-w-0 truncate">{children}</dd>
    </div>
  )
}

function Body({
  server,
  actions,
  view,
  setView,
}: {
  server: ServerDetailDto
  actions: ServerActions
  view: ServerView
  setView(change: Partial<ServerView>): void
}) {
  const now = useNow()
  const { state } = useLive()
  const seenMs = state.frozenAt ?? now
  const minute = Math.floor(seenMs / 60_000) * 60_000
  const minutes = useMemo(
    () => prepareServerMinutes(server.minutes, minute),
    [server.minutes, minute],
  )
  const notes = serverNotes(server, server.monitors)
  const mayReadLog = useMayRead('admin') === null
  return (
    <>
      {notes.length > 0 && <ServerNotes notes={notes} />}
      {actions.refusal && <div className="border-b">{actions.refusal}</div>}
      <ServerFigures server={server} minutes={minutes} />
      <div className="grid lg:grid-cols-2">
        <LatencyChart name={server.name} data={minutes} />
        <CallsChart data={minutes} className="border-t lg:border-t-0 lg:border-l" />
      </div>
      <div className="grid border-t lg:grid-cols-2">
        <BalanceChart server={server} />
        <ServerProcesses server={server} className="border-t lg:border-t-0 lg:border-l" />
      </div>
      <div className="grid border-t lg:grid-cols-2">
        <SelfTestSection server={server} actions={actions} />
        <ServerMonitors server={server} className="border-t lg:border-t-0 lg:border-l" />
      </div>
      <ServerHistory
        server={server}
        nowMs={seenMs}
        kind={view.events}
        onKind={(events) => setView({ events })}
      />
      {server.launched && mayReadLog && (
        <ServerLog name={server.name} frozen={state.frozenAt !== null} />
      )}
    </>
  )
}

function ServerSkeleton() {
  return (
    <>
      <div className="h-10 border-b" />
      <FigureStripSkeleton sparks />
      <div className="grid py-4 lg:grid-cols-2">
        <ChartSkeleton height={220} />
        <ChartSkeleton height={220} />
      </div>
      <TableSkeleton columns={6} rows={6} />
    </>
  )
}

function ServerMonitors({ server, className }: { server: ServerDetailDto; className: string }) {
  const kinds = Object.keys(MONITOR_WORDS) as MonitorKind[]
  const seen = new Set(server.monitors.map(({ kind }) => kind)).size
  return (
    <Section
      title="Monitors"
      note={
        seen === 0
          ? 'No findings, last 10 min'
          : `${seen} of ${kinds.length} with findings, last 10 min`
      }
      className={className}
    >
      <ul className="pb-3">
        {kinds.map((kind) => {
          const { name, watches } = MONITOR_WORDS[kind]
          const found = server.monitors.filter((monitor) => monitor.kind === kind)
          const worst = found.some((monitor) => monitor.severity === 'error')
          const Icon = found.length === 0 ? Check : worst ? CircleX : TriangleAlert
          const color = found.length === 0 ? 'text-ink-3' : worst ? 'text-bad' : 'text-warn'
          return (
            <li key={kind} className="flex items-start gap-2.5 px-5 py-1.5" data-monitor={kind}>
              <Icon
                size={14}
                className={`mt-[3px] shrink-0 ${color}`}
                aria-label={found.length === 0 ? 'No findings' : worst ? 'Error' : 'Warning'}
              />
              <span className="min-w-0">
                <span className={found.length === 0 ? '' : 'font-medium'}>{name}</span>
                {found.length === 0 ? (
                  <span className="block text-xs text-ink-3">{watches}</span>
                ) : (
                  found.map((monitor) => (
                    <span key={monitor.text} className="block text-ink-2">
                      {monitor.text}
                    </span>
                  ))
                )}
              </span>
            </li>
          )
        })}
      </ul>
    </Section>
  )
}
