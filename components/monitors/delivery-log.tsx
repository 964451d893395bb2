'use client'

import { useInfiniteQuery } from '@tanstack/react-query'
import { useTRPC } from '../api/trpc.ts'
import { durationText, formatCount } from '../format/numbers.ts'
import { Ago } from '../ui/ago.tsx'
import { Button } from '../ui/button.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { DeliveryStateView } from './delivery-state.tsx'

const PAGE = 25

/** Every delivery of the last 30 days: what was sent, whether it arrived, after how many attempts. */
export function DeliveryLog() {
  const trpc = useTRPC()
  const log = useInfiniteQuery(
    trpc.alerts.deliveries.infiniteQueryOptions(
      { limit: PAGE },
      {
        getNextPageParam: (page) => page.nextCursor ?? undefined,
        meta: { topics: ['monitors'] },
      },
    ),
  )
  return (
    <Section title="Deliveries" note="the last 30 days, the newest first">
      <QueryView query={log} skeleton={<TableSkeleton columns={7} rows={4} />}>
        {({ pages }) => {
          const items = pages.flatMap((page) => page.items)
          if (items.length === 0)
            return <p className="px-5 pb-4 text-xs text-ink-3">Nothing has been sent yet.</p>
          return (
            <>
              <Scroll label="Deliveries">
                <table className="grid-table">
                  <thead>
                    <tr>
                      <th scope="col">State</th>
                      <th scope="col">To</th>
                      <th scope="col">What was sent</th>
                      <th scope="col" className="end">
                        Attempts
                      </th>
                      <th scope="col" className="end">
                        Status
                      </th>
                      <th scope="col" className="end">
                        Answered in
                      </th>
                      <th scope="col">Last error</th>
                      <th scope="col" className="end">
                        When
                      </th>
                    </tr>
                  </thead>
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
                          <Ago at={item.triedAt ?? item.createdAt} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Scroll>
              {log.hasNextPage && (
                <div className="px-5 py-3">
                  <Button
                    small
                    busy={log.isFetchingNextPage}
                    onClick={() => void log.fetchNextPage()}
                  >
                    Earlier ones
                  </Button>
                </div>
              )}
            </>
          )
        }}
      </QueryView>
    </Section>
  )
}
