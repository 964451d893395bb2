'use client'

import { useQuery } from '@tanstack/react-query'
import { Plus, Server } from 'lucide-react'
import type { ServerDto } from '../../server/wire/servers.ts'
import { useTRPC } from '../api/trpc.ts'
import { useMay } from '../session/use-may.ts'
import { PageHeader } from '../shell/page-header.tsx'
import { Button } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { type UrlCodec, useUrl } from '../url/use-url.ts'
import { Pool } from './pool-table.tsx'
import { RegisterSheet } from './register-sheet.tsx'
import { fleetWords } from './server-words.ts'

interface ServersView {
  /** Id or name of a server to be marked. */
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
  const monitors = useQuery(
    trpc.servers.monitors.queryOptions(undefined, { meta: { topics: ['servers'] } }),
  )
  const settings = useQuery(
    trpc.pools.list.queryOptions(undefined, { meta: { topics: ['servers'] } }),
  )
  const refused = useMay('admin')
  const register = () => setView({ register: true }, 'push')
  return (
    <>
      <PageHeader
        title="Servers"
        state={servers.data && servers.data.length > 0 && <FleetState servers={servers.data} />}
        actions={
          <Button small variant="primary" refused={refused} onClick={register}>
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
                <Button variant="primary" refused={refused} onClick={register}>
                  Register a server
                </Button>
              }
            >
              Rules need none. For a reward model or a judge, start vLLM, SGLang, TEI, llama.cpp or
              whatever speaks their words, and register its address: it is asked who it is and its
              scores are tested. Batches then name the model, and the router picks the server.
            </Empty>
          ) : (
            pools(data).map(([model, pool]) => (
              <Pool
                key={model}
                model={model}
                servers={pool}
                settings={settings.data?.find((each) => each.model === model) ?? null}
                monitors={monitors.data ?? []}
                marked={view.server}
              />
            ))
          )
        }
      </QueryView>
      <RegisterSheet
        open={view.register && refused === null}
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
  const fleet = fleetWords(servers.map((server) => server.state))
  return (
    <span className={`num truncate max-sm:hidden ${fleet.calm ? 'text-ink-3' : 'text-warn'}`}>
      {fleet.text}
    </span>
  )
}
