'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { CirclePlay, Hourglass, Plus, RefreshCw, Server, Trash2 } from 'lucide-react'
import { useState } from 'react'
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
import { PageHeader } from '../shell/page-header.tsx'
import { ActionMenu } from '../ui/action-menu.tsx'
import { Ago } from '../ui/ago.tsx'
import { Button } from '../ui/button.tsx'
import { CopyText } from '../ui/copy-text.tsx'
import { Confirm } from '../ui/dialog.tsx'
import { Empty } from '../ui/empty.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { ServerStateView } from '../ui/status.tsx'
import { type UrlCodec, useUrl } from '../url/use-url.ts'
import { LoadBar, ServerName } from './fleet-table.tsx'
import { RegisterSheet } from './register-sheet.tsx'

interface ServersView {
  server: string | null
  register: boolean
}

const serversView: UrlCodec<ServersView> = {
  parse: (params) => ({
    server: params.get('server'),
    register: params.get('register') === '1',
  }),
  write(view) {
    const params = new URLSearchParams()
    if (view.server !== null) params.set('server', view.server)
    if (view.register) params.set('register', '1')
    return params
  },
}

/** The registered reward-model servers, a pool a model. */
export function ServersPage() {
  const trpc = useTRPC()
  const [view, setView] = useUrl(serversView)
  const servers = useQuery(
    trpc.servers.list.queryOptions(undefined, { meta: { topics: ['servers'] } }),
  )
  const register = () => setView({ register: true }, 'push')
  return (
    <>
      <PageHeader
        title="Servers"
        state={servers.data && servers.data.length > 0 && <FleetState servers={servers.data} />}
        actions={
          <Button small variant="primary" onClick={register}>
            <Plus size={14} aria-hidden />
            Register
          </Button>
        }
      />
      <QueryView query={servers} skeleton={<TableSkeleton columns={9} rows={4} />}>
        {(data) =>
          data.length === 0 ? (
            <Empty
              icon={Server}
              title="No reward-model server yet"
              actions={
                <Button variant="primary" onClick={register}>
                  Register a server
                </Button>
              }
            >
              Rules need none. For a reward model, start vLLM, SGLang or OpenRLHF with it and
              register its address; batches then name the model and the router picks the server.
            </Empty>
          ) : (
            pools(data).map(([model, pool]) => (
              <Pool key={model} model={model} servers={pool} marked={view.server} />
            ))
          )
        }
      </QueryView>
      <RegisterSheet
        open={view.register}
        onClose={() => setView({ register: false })}
        onRegistered={(server) => setView({ register: false, server: server.id })}
      />
    </>
  )
}

function pools(servers: readonly ServerDto[]): [model: string, servers: ServerDto[]][] {
  return [...Map.groupBy(servers, (server) => server.model)].sort(([a], [b]) => a.localeCompare(b))
}

function FleetState({ servers }: { servers: ServerDto[] }) {
  const ready = servers.filter((server) => server.state === 'ready').length
  return (
    <span className={`num ${ready === servers.length ? 'text-ink-3' : 'text-warn'}`}>
      {formatCount(ready)} of {formatCount(servers.length)} ready
    </span>
  )
}

function Pool({
  model,
  servers,
  marked,
}: {
  model: string
  servers: ServerDto[]
  marked: string | null
}) {
  const rate = servers.reduce((sum, server) => sum + server.requestsPerSecond, 0)
  return (
    <Section
      title={<CopyText text={model} most={48} className="text-sm" />}
      note={`${plural(servers.length, 'server')} · ${formatRate(rate)} req/s`}
      className="border-b pb-3"
    >
      <Scroll label={`Servers of ${model}`}>
        <table className="grid-table">
          <thead>
            <tr>
              <th scope="col">Server</th>
              <th scope="col">State</th>
              <th scope="col">Engine</th>
              <th scope="col">Address</th>
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
                Requests
              </th>
              <th scope="col" className="end">
                Errors
              </th>
              <th scope="col" className="end">
                Share
              </th>
              <th scope="col" className="end">
                Asked
              </th>
              <th scope="col">
                <span className="sr-only">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {servers.map((server) => (
              <ServerRow key={server.id} server={server} marked={server.id === marked} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </Section>
  )
}

function ServerRow({ server, marked }: { server: ServerDto; marked: boolean }) {
  return (
    <>
      <tr
        aria-current={marked || undefined}
        data-server={server.name}
        className={marked ? '[&>td]:bg-selected' : undefined}
      >
        <td className="max-w-52">
          <span className="flex items-center gap-2">
            <ServerName name={server.name} id={server.id} />
            {server.tags.map((tag) => (
              <span key={tag} className="rounded border px-1 text-2xs text-ink-3">
                {tag}
              </span>
            ))}
          </span>
        </td>
        <td>
          <ServerStateView state={server.state} cause={server.stateCause} />
        </td>
        <td>
          {server.engine}
          {server.version && <span className="unit"> {server.version}</span>}
        </td>
        <td className="text-xs text-ink-2">
          <CopyText text={server.url} most={32} />
        </td>
        <td>
          <LoadBar server={server} />
        </td>
        <td className="num end">{formatRate(server.requestsPerSecond)}</td>
        <td className="end">
          <Quantity of={formatDuration(server.p50Ms)} />
        </td>
        <td className="end">
          <Quantity of={formatDuration(server.p99Ms)} />
        </td>
        <td className="num end">{formatCount(server.requests)}</td>
        <td className="num end" title={`${formatCount(server.retries)} retries`}>
          {server.errors === 0 ? (
            <span className="text-ink-3">{server.requests === 0 ? '–' : '0'}</span>
          ) : (
            <>
              {formatCount(server.errors)}
              <span className="unit">
                &nbsp;{quantityText(formatPercent(server.errors / server.requests))}
              </span>
            </>
          )}
        </td>
        <td className="end">
          <Quantity of={formatPercent(server.share)} />
        </td>
        <td className="end text-ink-2">
          <Ago at={server.lastProbeAt} />
        </td>
        <td className="end">
          <ServerActions server={server} />
        </td>
      </tr>
      {server.stateCause && server.state !== 'ready' && (
        <tr>
          <td
            colSpan={13}
            className={`text-xs whitespace-normal! ${server.state === 'unreachable' ? 'bg-bad-soft!' : 'bg-warn-soft!'}`}
          >
            {server.stateCause}{' '}
            <span className="text-ink-3">
              · since <Ago at={server.stateSince} />
            </span>
          </td>
        </tr>
      )}
    </>
  )
}

function ServerActions({ server }: { server: ServerDto }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [asking, setAsking] = useState<'drain' | 'remove' | null>(null)
  const ref = { id: server.id }
  const done = {
    onSuccess: () => {
      setAsking(null)
      void queryClient.invalidateQueries(trpc.servers.pathFilter())
    },
  }
  const drain = useMutation(trpc.servers.drain.mutationOptions(done))
  const resume = useMutation(trpc.servers.resume.mutationOptions(done))
  const probe = useMutation(trpc.servers.probe.mutationOptions(done))
  const remove = useMutation(trpc.servers.remove.mutationOptions(done))
  const quiet = probe.error ?? resume.error
  return (
    <>
      {quiet && (
        <span role="alert" className="mr-2 text-xs text-bad">
          {quiet.message}
        </span>
      )}
      <ActionMenu
        label={`Actions for ${server.name}`}
        actions={[
          {
            label: probe.isPending ? 'Asking…' : 'Ask it now',
            icon: <RefreshCw size={14} aria-hidden />,
            disabled: probe.isPending,
            onSelect: () => probe.mutate(ref),
          },
          server.state === 'draining'
            ? {
                label: 'Resume',
                icon: <CirclePlay size={14} aria-hidden />,
                onSelect: () => resume.mutate(ref),
              }
            : {
                label: 'Drain…',
                icon: <Hourglass size={14} aria-hidden />,
                onSelect: () => setAsking('drain'),
              },
          {
            label: 'Remove…',
            icon: <Trash2 size={14} aria-hidden />,
            danger: true,
            apart: true,
            onSelect: () => setAsking('remove'),
          },
        ]}
      />
      <Confirm
        open={asking === 'drain'}
        title={`Drain ${server.name}?`}
        action="Drain it"
        busy={drain.isPending}
        error={drain.error && <FailureView compact error={drain.error} />}
        onConfirm={() => drain.mutate(ref)}
        onClose={() => setAsking(null)}
      >
        It finishes the {plural(server.inFlight, 'call')} it has and is given nothing new until it
        is resumed. Its share goes to the other servers of {server.model}.
      </Confirm>
      <Confirm
        open={asking === 'remove'}
        title={`Remove ${server.name}?`}
        action="Remove it"
        busy={remove.isPending}
        error={remove.error && <FailureView compact error={remove.error} />}
        onConfirm={() => remove.mutate(ref)}
        onClose={() => setAsking(null)}
      >
        No more calls go to {server.url}. What it scored stays, under its name. To use it again,
        register it again.
      </Confirm>
    </>
  )
}
