'use client'

import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useTRPC } from '../api/trpc.ts'
import { prepareComponents } from '../charts/components.prepare.ts'
import { Component } from '../rewards/components-view.tsx'

/** The components of a composite reward over steps; the reward itself has its own chart above. */
export function RunComponents({ run }: { run: string }) {
  const trpc = useTRPC()
  const components = useQuery(
    trpc.rewards.components.queryOptions({ run }, { meta: { topics: ['batches'] } }),
  )
  const parts = useMemo(
    () => prepareComponents(components.data?.components ?? []).filter(({ name }) => name !== ''),
    [components.data],
  )
  if (parts.length === 0) return null
  return (
    <div className="grid border-b md:grid-cols-2 xl:grid-cols-3">
      {parts.map((part) => (
        <Component key={part.name} data={part} />
      ))}
    </div>
  )
}
