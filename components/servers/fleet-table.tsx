import type { ServerDto } from '../../server/wire/servers.ts'
import { hueOf } from '../charts/hue.ts'
import {
  formatCount,
  formatDuration,
  formatPercent,
  formatRate,
  quantityText,
} from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { ServerStateView } from '../ui/status.tsx'

/** The reward-model servers on the overview: state, load, rate, latency, errors. */
export function FleetTable({ servers }: { servers: ServerDto[] }) {
  const ready = servers.filter((server) => server.state === 'ready').length
  return (
    <Section
      title={<PageLink href="/servers">Servers</PageLink>}
      note={
        servers.length > 0
          ? `${formatCount(ready)} of ${formatCount(servers.length)} ready`
          : undefined
      }
    >
      {servers.length === 0 ? (
        <p className="px-5 pb-5 text-ink-2">
          No reward-model server is registered; rules need none.{' '}
          <PageLink href="/servers?register=1" className="text-accent hover:underline">
            Register one
          </PageLink>
        </p>
      ) : (
        <Scroll label="Servers">
          <table className="grid-table">
            <thead>
              <tr>
                <th scope="col">Server</th>
                <th scope="col">State</th>
                <th scope="col">In flight</th>
                <th scope="col" className="end">
                  Req/s
                </th>
                <th scope="col" className="end">
                  p99
                </th>
                <th scope="col" className="end">
                  Errors
                </th>
              </tr>
            </thead>
            <tbody>
              {servers.map((server) => (
                <tr key={server.id}>
                  <td>
                    <ServerName name={server.name} id={server.id} />
                  </td>
                  <td>
                    <ServerStateView state={server.state} cause={server.stateCause} />
                  </td>
                  <td>
                    <LoadBar server={server} />
                  </td>
                  <td className="num end">{formatRate(server.requestsPerSecond)}</td>
                  <td className="end">
                    <Quantity of={formatDuration(server.p99Ms)} />
                  </td>
                  <td className={`num end ${server.errors > 0 ? '' : 'text-ink-3'}`}>
                    {server.requests === 0
                      ? '–'
                      : quantityText(formatPercent(server.errors / server.requests))}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Section>
  )
}

/** A server's name with its hue, as on every page. */
export function ServerName({ name, id }: { name: string; id?: string }) {
  const inside = (
    <>
      <span
        className="size-2 shrink-0 rounded-[2px]"
        style={{ background: hueOf('server', name) }}
        aria-hidden
      />
      <span className="truncate">{name}</span>
    </>
  )
  return id === undefined ? (
    <span className="inline-flex min-w-0 items-center gap-2">{inside}</span>
  ) : (
    <PageLink
      href={`/servers?server=${id}`}
      className="inline-flex min-w-0 items-center gap-2 font-medium hover:underline"
    >
      {inside}
    </PageLink>
  )
}

/** Calls in flight against the limit. */
export function LoadBar({ server }: { server: Pick<ServerDto, 'inFlight' | 'limit'> }) {
  const share = server.limit === 0 ? 0 : Math.min(1, server.inFlight / server.limit)
  return (
    <span className="flex items-center gap-2">
      <span
        className="h-1.5 w-14 overflow-hidden rounded-full bg-[color-mix(in_oklab,var(--ink)_9%,transparent)]"
        aria-hidden
      >
        <span className="block h-full bg-ink-3" style={{ width: `${share * 100}%` }} />
      </span>
      <span className="num">
        {formatCount(server.inFlight)}
        <span className="unit">/{formatCount(server.limit)}</span>
      </span>
    </span>
  )
}
