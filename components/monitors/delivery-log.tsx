'use client'

import { useInfiniteQuery } from '@tanstack/react-query'
import { pagesOptions } from '../api/pages.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { durationText, formatCount } from '../format/numbers.ts'
import { Ago } from '../ui/ago.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { ShowMore } from '../ui/show-more.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { DeliveryStateView } from './delivery-state.tsx'

const PAGE = 25

/** The deliveries of the last 30 days, with state and attempts. */
export function DeliveryLog() {
  const trpc = useTRPC()
  const client = useTRPCClient()
  const log = useInfiniteQuery(
    pagesOptions({
      queryKey: trpc.alerts.deliveries.infiniteQueryKey({ limit: PAGE }),
      read: (cursor, signal) => client.alerts.deliveries.query({ limit: PAGE, cursor }, { signal }),
      topics: ['monitors'],
    }),
  )
  return (
    <Section title="Deliveries" note="last 30 days, newest first">
      <QueryView query={log} skeleton={<TableSkeleton columns={7} rows={4} />}>
        {({ pages }) => {
          const items = pages.flatMap((page) => page.items)
          if (items.length === 0)
            return (
              <p className="px-5 pb-4 text-xs text-ink-3">No deliveries in the last 30 days.</p>
            )
          return (
            <>
              <Scroll label="Deliveries">
                <table className="grid-table">
                  <ColumnHeads
                    columns={[
                      'State',
                      'Webhook',
                      'Message',
                      { end: 'Attempts' },
                      { end: 'Status' },
                      { end: 'Latency' },
                      'Last error',
                      { end: 'Time' },
                    ]}
                  />
                  <tbody>
                    {items.map((item) => (
                      <tr key={item.id}>
                        <td>
                          <DeliveryStateView state={item.state} />
                        </td>
                        <td className="font-medium">{item.webhook}</td>
                        <td className="max-w-96 truncate" title={item.text}>
                          {item.text}
                        </td>
                        <td className="num end">{formatCount(item.attempts)}</td>
                        <td className="num end">{item.status ?? '–'}</td>
                        <td className="num end">{durationText(item.latencyMs)}</td>
                        <td
                          className="max-w-64 truncate text-ink-2"
                          title={item.error ?? undefined}
                        >
                          {item.error ?? ''}
                        </td>
                        <td className="end text-ink-2">
                          <Ago at={item.lastAttemptAt ?? item.createdAt} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Scroll>
              <ShowMore query={log}>Load older deliveries</ShowMore>
            </>
          )
        }}
      </QueryView>
    </Section>
  )
}
