'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useLayoutEffect, useRef, useState } from 'react'
import { useTRPC } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { CopyButton } from '../ui/copy-text.tsx'
import { Segmented } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { Skeleton } from '../ui/skeleton.tsx'

/** Polling interval of the log while the page is live, ms. The log is not streamed. */
const READ_EVERY_MS = 3_000

/** The end of the log of a launched server; the service masks secrets. */
export function ServerLog({ name, frozen }: { name: string; frozen: boolean }) {
  const trpc = useTRPC()
  const [lines, setLines] = useState<'200' | '2000'>('200')
  const log = useQuery(
    trpc.servers.log.queryOptions(
      { name, lines: Number(lines) },
      {
        refetchInterval: frozen ? false : READ_EVERY_MS,
        placeholderData: keepPreviousData,
      },
    ),
  )
  return (
    <Section
      title="Launch log"
      note={log.data ? `Last ${plural(log.data.lines.length, 'line')}` : undefined}
      className="border-t"
      actions={
        <>
          {log.data && <CopyButton text={log.data.lines.join('\n')} label="Copy" />}
          <Segmented
            label="Lines"
            value={lines}
            onChange={setLines}
            options={[
              { value: '200', label: '200' },
              { value: '2000', label: '2,000' },
            ]}
          />
        </>
      }
    >
      <QueryView
        query={log}
        compact
        skeleton={
          <div className="space-y-2 px-5 pb-5">
            {[420, 300, 360, 240].map((width) => (
              <Skeleton key={width} width={width} />
            ))}
          </div>
        }
      >
        {(data) =>
          data.lines.length === 0 ? (
            <p className="px-5 pb-5 text-ink-2">No log lines yet.</p>
          ) : (
            <Tail lines={data.lines} />
          )
        }
      </QueryView>
    </Section>
  )
}

function Tail({ lines }: { lines: readonly string[] }) {
  const box = useRef<HTMLElement>(null)
  const atEnd = useRef(true)
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines trigger the scroll
  useLayoutEffect(() => {
    const at = box.current
    if (at && atEnd.current) at.scrollTop = at.scrollHeight
  }, [lines])
  return (
    <div
      className="px-5 pb-5"
      onScrollCapture={() => {
        const at = box.current
        if (at) atEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 24
      }}
    >
      <Scroll
        ref={box}
        label="Launch log"
        className="max-h-80 overflow-auto rounded-lg border bg-sunken p-3"
      >
        <pre className="font-mono text-2xs">{lines.join('\n')}</pre>
      </Scroll>
    </div>
  )
}
