'use client'

import { useQuery } from '@tanstack/react-query'
import type { FirstLinesDto } from '../../server/contract/sample-extras.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { MarkedText } from '../rollouts/marked-text.tsx'
import { Skeleton } from '../ui/skeleton.tsx'

const MAX_IDS = 100
/** Rows that appear within this time, about a frame while scrolling, are read together. */
const GATHER_MS = 20

type Client = ReturnType<typeof useTRPCClient>

interface Wanted {
  id: string
  resolve(lines: FirstLinesDto | null): void
  reject(error: unknown): void
}

const queues = new WeakMap<Client, Wanted[]>()

/**
 * Reads the first lines of a sample in one request with other samples whose rows appear now. Null if the sample has no
 * texts.
 */
function readFirstLines(client: Client, id: string): Promise<FirstLinesDto | null> {
  return new Promise((resolve, reject) => {
    let queue = queues.get(client)
    if (queue === undefined) {
      const fresh: Wanted[] = []
      queue = fresh
      queues.set(client, fresh)
      setTimeout(() => {
        queues.delete(client)
        for (let at = 0; at < fresh.length; at += MAX_IDS) {
          void readTogether(client, fresh.slice(at, at + MAX_IDS))
        }
      }, GATHER_MS)
    }
    queue.push({ id, resolve, reject })
  })
}

async function readTogether(client: Client, wanted: readonly Wanted[]): Promise<void> {
  try {
    const ids = [...new Set(wanted.map(({ id }) => id))]
    const lines = new Map(
      (await client.samples.firstLines.query({ ids })).map((each) => [each.id, each]),
    )
    for (const { id, resolve } of wanted) resolve(lines.get(id) ?? null)
  } catch (error) {
    for (const { reject } of wanted) reject(error)
  }
}

/** The first line of a prompt or response, read when its row is visible, because `samples.list` returns no texts. */
export function FirstLine({ id, of }: { id: string; of: 'prompt' | 'response' }) {
  const trpc = useTRPC()
  const client = useTRPCClient()
  const { data, isError } = useQuery({
    queryKey: [...trpc.samples.firstLines.queryKey(), id],
    queryFn: () => readFirstLines(client, id),
    // Texts never change.
    staleTime: Number.POSITIVE_INFINITY,
  })
  if (data === undefined && !isError) {
    return <Skeleton width={of === 'prompt' ? 90 : 140} height={10} className="max-w-full" />
  }
  const line = data?.[of] ?? ''
  if (line === '') return <span className="text-ink-3">–</span>
  return (
    <span className={`block truncate ${of === 'prompt' ? 'text-ink-2' : ''}`} dir="auto">
      <MarkedText text={line} />
    </span>
  )
}
