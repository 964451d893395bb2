'use client'

import { useQuery } from '@tanstack/react-query'
import { ListTree } from 'lucide-react'
import { useMemo } from 'react'
import type { RunDto } from '../../server/contract/runs.ts'
import { useTRPC } from '../api/trpc.ts'
import { PageLink } from '../shell/page-link.tsx'
import { buttonClass } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { Segmented } from '../ui/field.tsx'
import type { RunUrl } from './run-url.ts'

export function RunSplits({
  run,
  split,
  onChange,
}: {
  run: Pick<RunDto, 'splits'>
  split: RunUrl['split']
  onChange(split: RunUrl['split']): void
}) {
  if (run.splits.every(({ split, batches }) => split !== 'val' || batches === 0)) return null
  return (
    <Segmented
      label="Split"
      value={split}
      options={[
        { value: 'train', label: 'Training' },
        { value: 'val', label: 'Validation' },
      ]}
      onChange={onChange}
    />
  )
}

export function RunMissing({ name }: { name: string }) {
  return (
    <Empty
      icon={ListTree}
      title={`Run “${name}” not found`}
      actions={
        <PageLink href="/runs" className={buttonClass('plain', true)}>
          View runs
        </PageLink>
      }
    >
      A run is created by its first batch or by{' '}
      <code className="font-mono text-xs">runs.update</code>. Both give its name in the field{' '}
      <code className="font-mono text-xs">run</code>.
    </Empty>
  )
}

/** The marks of a run by step: automatic marks of changed rewards, and marks made by users. */
export function useRunMarks(name: string, run: Pick<RunDto, 'marks'> | undefined) {
  const trpc = useTRPC()
  const made = useQuery(
    trpc.marks.list.queryOptions({ run: name }, { meta: { topics: ['marks'] } }),
  )
  return useMemo(
    () => [...(run?.marks ?? []), ...(made.data ?? [])].sort((a, b) => a.step - b.step),
    [run?.marks, made.data],
  )
}
