'use client'

import type { ServerDto } from '../../server/contract/servers.ts'
import { formatDuration, formatRate } from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { ServerStateView } from '../ui/status.tsx'
import { ErrorShare, HealthCell, LoadBar, ServerName } from './server-cells.tsx'
import { fleetWords, healthWords } from './server-words.ts'

export function FleetTable({ servers }: { servers: ServerDto[] }) {
  const fleet = fleetWords(servers)
  return (
    <Section
      title={<PageLink href="/servers">Servers</PageLink>}
      note={
        servers.length > 0 ? (
          <span className={fleet.calm ? '' : 'text-warn'}>{fleet.text}</span>
        ) : undefined
      }
    >
      {servers.length === 0 ? (
        <p className="px-5 pb-5 text-ink-2">
          No reward-model servers. Rules do not need one.{' '}
          <PageLink href="/servers?register=1" className="text-accent hover:underline">
            Register server
          </PageLink>
        </p>
      ) : (
        <Scroll label="Servers">
          <table className="grid-table">
            <ColumnHeads
              columns={[
                'Server',
                'State',
                {
                  start: 'In flight',
                  title:
                    'Requests in flight and their limit. Each sample of a micro-batch counts as one request.',
                },
                { end: 'Req/s' },
                { end: 'p99' },
                { end: 'Errors', title: 'Share of failed requests, last 10 minutes' },
              ]}
            />
            <tbody>
              {servers.map((server) => (
                <tr key={server.id}>
                  <td className="max-w-44">
                    <ServerName name={server.name} id={server.id} />
                  </td>
                  <td>
                    {server.state === 'ready' && healthWords(server.health).tone !== 'ok' ? (
                      <HealthCell server={server} />
                    ) : (
                      <ServerStateView server={server} />
                    )}
                  </td>
                  <td>
                    <LoadBar server={server} />
                  </td>
                  <td className="num end">{formatRate(server.requestsPerSecond)}</td>
                  <td className="end">
                    <Quantity of={formatDuration(server.p99Ms)} />
                  </td>
                  <td className="num end">
                    <ErrorShare server={server} />
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
