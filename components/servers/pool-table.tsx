'use client'

import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import {
  BALANCING_POLICIES,
  DEFAULT_POLICY,
  POLICY_NAMES,
  type PoolDto,
} from '../../server/contract/pools.ts'
import type { PoolShareDto, ServerMonitorDto } from '../../server/contract/server-detail.ts'
import type { ServerDto } from '../../server/contract/servers.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCount, formatRate, plural } from '../format/numbers.ts'
import { useMay } from '../session/use-may.ts'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { CopyText } from '../ui/copy-text.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { Select } from '../ui/select.tsx'
import { useNarrow } from '../ui/use-narrow.ts'
import { POOL_COLUMNS, ServerBlock, ServerRow } from './server-row.tsx'
import { imbalanceWords } from './server-words.ts'

/** A pool: the servers of one model, which share the requests for this model. */
export function Pool({
  model,
  servers,
  fits,
  settings,
  monitors,
  marked,
}: {
  model: string
  servers: ServerDto[]
  /** Whether the filter matches a server. Pool figures cover all servers. */
  fits(server: ServerDto): boolean
  settings: PoolDto | null
  monitors: readonly ServerMonitorDto[]
  marked: string | null
}) {
  const pool = usePool(servers)
  const rate = servers.reduce((sum, server) => sum + server.requestsPerSecond, 0)
  const ready = servers.filter((server) => server.state === 'ready').length
  const narrow = useNarrow()
  const rows = servers.filter(fits).map((server) => ({
    server,
    // The shares of a single server are always 100 %, so they are not shown.
    part: servers.length > 1 ? (pool?.shares.find((each) => each.id === server.id) ?? null) : null,
    monitors,
    marked: server.id === marked || server.name === marked,
  }))
  return (
    <Section
      title={<CopyText text={model} maxChars={48} className="text-sm" />}
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
          {settings && settings.jobsWaiting > 0 && (
            <>
              <span aria-hidden>·</span>
              <span title="Jobs (chunks of samples) that no worker has claimed">
                {plural(settings.jobsWaiting, 'job')} waiting
              </span>
            </>
          )}
        </span>
      }
      actions={
        settings && (servers.length > 1 || settings.hasChosenPolicy) && <Policy pool={settings} />
      }
      className="border-b pb-3"
    >
      {narrow ? (
        <ul aria-label={`Servers of ${model}`} className="border-t">
          {rows.map((row) => (
            <ServerBlock key={row.server.id} {...row} />
          ))}
        </ul>
      ) : (
        <Scroll label={`Servers of ${model}`}>
          <table className="grid-table min-w-[1190px] table-fixed [&_:is(td,th):not(:first-child,:last-child)]:px-2">
            <colgroup>
              {POOL_COLUMNS.map(({ head, width }) => (
                <col key={JSON.stringify(head)} style={{ width }} />
              ))}
            </colgroup>
            <ColumnHeads columns={POOL_COLUMNS.map(({ head }) => head)} />
            <tbody>
              {rows.map((row) => (
                <ServerRow key={row.server.id} {...row} />
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Section>
  )
}

function Policy({ pool }: { pool: PoolDto }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const update = useMutation(
    trpc.pools.update.mutationOptions({
      onSettled: () => void queryClient.invalidateQueries(trpc.pools.pathFilter()),
    }),
  )
  const refused = useMay('admin')
  const wanted = update.isPending
    ? update.variables.policy
    : pool.hasChosenPolicy
      ? pool.policy
      : null
  return (
    <span className="flex items-center gap-2">
      {update.error && (
        <span role="alert" className="text-xs text-bad">
          {describeFailure(update.error).message}
        </span>
      )}
      <Select
        label={`Balancing policy of ${pool.model}`}
        hideLabel
        disabled={refused !== null}
        title={
          refused ?? 'Balancing policy: how requests are distributed over the servers of this pool'
        }
        value={wanted}
        options={[
          { value: null, label: `${BALANCING_POLICIES[DEFAULT_POLICY].label} (default)` },
          ...POLICY_NAMES.map((value) => ({ value, label: BALANCING_POLICIES[value].label })),
        ]}
        onChange={(policy) => update.mutate({ model: pool.model, policy })}
      />
    </span>
  )
}

/** The request and capacity shares of the pool's servers, from the details of its first server. */
function usePool(
  servers: readonly ServerDto[],
): { shares: PoolShareDto[]; imbalance: number | null } | null {
  const trpc = useTRPC()
  const first = servers[0]
  const detail = useQuery(
    trpc.servers.get.queryOptions(
      { id: first?.id ?? '' },
      {
        enabled: servers.length > 1,
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
      title="Highest ratio of a server’s share of requests to its share of capacity, last 10 minutes. Up to 1.1 counts as even."
    >
      {imbalance === null
        ? 'no requests in 10 min'
        : `load balance ${imbalanceWords(imbalance).toLowerCase()}`}
    </span>
  )
}
