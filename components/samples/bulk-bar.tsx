'use client'

import { useQuery } from '@tanstack/react-query'
import { RefreshCcw, Tag, X } from 'lucide-react'
import type { SampleFilter } from '../../server/contract/sample-filter.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { useMay } from '../session/use-may.ts'
import { Button, IconButton } from '../ui/button.tsx'
import { MAX_SELECTED, type Selected } from './selection.ts'

export function BulkBar({
  selected,
  filter,
  loaded,
  hasMore,
  onAll,
  onClear,
  onAnnotate,
  onRescore,
}: {
  selected: Selected
  filter: SampleFilter
  loaded: number
  /** Whether more samples match than are loaded. */
  hasMore: boolean
  onAll(): void
  onClear(): void
  onAnnotate(): void
  onRescore(): void
}) {
  const refused = useMay('trainer')
  const isFull = selected.ids.size >= MAX_SELECTED
  return (
    <section
      aria-label="Selected samples"
      className="flex flex-wrap items-center gap-2 border-b bg-selected px-5 py-1.5"
    >
      <span className="num text-sm font-medium" role="status">
        {selected.all ? (
          <AllWords filter={filter} />
        ) : (
          `${plural(selected.ids.size, 'sample')} selected${isFull ? ', the maximum' : ''}`
        )}
      </span>
      {!selected.all && (hasMore || isFull) && selected.ids.size >= Math.min(loaded, 100) && (
        <Button small variant="quiet" onClick={onAll}>
          Select all matching
        </Button>
      )}
      <span className="ml-auto flex items-center gap-1">
        <Button small refused={refused} onClick={onAnnotate}>
          <Tag size={13} aria-hidden />
          Annotate
        </Button>
        <Button small refused={refused} onClick={onRescore}>
          <RefreshCcw size={13} aria-hidden />
          Rescore
        </Button>
        <IconButton label="Clear selection" onClick={onClear}>
          <X size={14} aria-hidden />
        </IconButton>
      </span>
    </section>
  )
}

function AllWords({ filter }: { filter: SampleFilter }) {
  const trpc = useTRPC()
  const { data } = useQuery(trpc.samples.count.queryOptions(filter))
  if (data === undefined) return 'All matching samples selected'
  return data.exact
    ? `All ${plural(data.samples, 'matching sample')} selected`
    : `All matching samples selected, ${formatCount(data.samples)}+`
}
