'use client'

import { useQuery } from '@tanstack/react-query'
import { Plus, Server } from 'lucide-react'
import { useRef } from 'react'
import type { ServerDto } from '../../server/contract/servers.ts'
import { useTRPC } from '../api/trpc.ts'
import { useMay } from '../session/use-may.ts'
import { PageHeader } from '../shell/page-header.tsx'
import { Button } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { FilterLine, fitsFilter, needsFilter } from '../ui/filter-field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { type UrlCodec, useUrl } from '../url/use-url.ts'
import { FleetHistory } from '../workers/fleet-history.tsx'
import { type HistoryRange, rangeOfUrl, writeRange } from '../workers/history-range.ts'
import { Pool } from './pool-table.tsx'
import { RegisterSheet } from './register-sheet.tsx'
import { fleetWords } from './server-words.ts'

interface ServersView {
  /** The ID or name of a highlighted server. */
  server: string | null
  register: boolean
  /** The filter: part of a name, URL or model. */
  named: string
  range: HistoryRange
}

const serversView: UrlCodec<ServersView> = {
  parse: (params) => ({
    server: params.get('server'),
    register: params.get('register') === '1',
    named: params.get('named') ?? '',
    range: rangeOfUrl(params),
  }),
  write(view) {
    const params = new URLSearchParams()
    if (view.server !== null) params.set('server', view.server)
    if (view.register) params.set('register', '1')
    if (view.named !== '') params.set('named', view.named)
    writeRange(params, view.range)
    return params
  },
}

export function ServersPage() {
  const trpc = useTRPC()
  const [view, setView] = useUrl(serversView)
  const servers = useQuery(
    trpc.servers.list.queryOptions(undefined, { meta: { topics: ['servers'] } }),
  )
  const monitors = useQuery(
    trpc.servers.monitors.queryOptions(undefined, { meta: { topics: ['servers'] } }),
  )
  const settings = useQuery(
    trpc.pools.list.queryOptions(undefined, { meta: { topics: ['servers'] } }),
  )
  const refused = useMay('admin')
  const fits = (server: ServerDto) => fitsFilter(view.named, server.name, server.url, server.model)
  const register = () => setView({ register: true }, 'push')
  const registerButton = useRef<HTMLButtonElement>(null)
  return (
    <>
      <PageHeader
        title="Servers"
        state={servers.data && servers.data.length > 0 && <FleetState servers={servers.data} />}
        actions={
          <Button ref={registerButton} small variant="primary" refused={refused} onClick={register}>
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
              title="No reward-model servers"
              actions={
                <Button variant="primary" refused={refused} onClick={register}>
                  Register server
                </Button>
              }
            >
              Rules do not need a server. For a reward model or a judge, start vLLM, SGLang, TEI,
              llama.cpp or a compatible server, and register its URL. The service probes the server
              and tests its scores. Batches then name the model, and the router selects a server.
            </Empty>
          ) : (
            <>
              {needsFilter(data.length, view.named) && (
                <FilterLine
                  label="Name, URL or model"
                  value={view.named}
                  shown={data.filter(fits).length}
                  total={data.length}
                  onChange={(named) => setView({ named })}
                />
              )}
              {pools(data)
                .filter(([, pool]) => pool.some(fits))
                .map(([model, pool]) => (
                  <Pool
                    key={model}
                    model={model}
                    servers={pool}
                    fits={fits}
                    settings={settings.data?.find((each) => each.model === model) ?? null}
                    monitors={monitors.data ?? []}
                    marked={view.server}
                  />
                ))}
              <FleetHistory
                of="servers"
                range={view.range}
                onRange={(range, how) => setView({ range }, how)}
              />
              {!data.some(fits) && <p className="px-5 py-4 text-ink-2">No matching servers.</p>}
            </>
          )
        }
      </QueryView>
      <RegisterSheet
        open={view.register && refused === null}
        // If a link on another page opened the sheet, no element of this page had the focus before, so this button gets
        // it.
        finalFocus={registerButton}
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
  const fleet = fleetWords(servers)
  return (
    <span className={`num truncate max-sm:hidden ${fleet.calm ? 'text-ink-3' : 'text-warn'}`}>
      {fleet.text}
    </span>
  )
}
