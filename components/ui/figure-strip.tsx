import type { ReactNode } from 'react'
import { Skeleton } from './skeleton.tsx'

export function FigureStrip({ label, children }: { label: string; children: ReactNode }) {
  return (
    // The number of columns follows the container, because a docked panel takes half of the screen.
    <div className="@container">
      <dl
        aria-label={label}
        className="grid grid-cols-2 border-b @min-[640px]:grid-cols-3 @min-[960px]:grid-cols-6 [&>*]:border-l [&>*]:-ml-px overflow-hidden print:grid-cols-3"
      >
        {children}
      </dl>
    </div>
  )
}

export function Figure({
  label,
  hint,
  value,
  unit,
  detail,
  children,
}: {
  label: string
  hint?: string
  value: ReactNode
  unit?: string
  detail?: ReactNode
  children?: ReactNode
}) {
  return (
    <div className="min-w-0 px-5 pt-3 pb-3">
      <dt className="truncate text-xs text-ink-3" title={hint}>
        {label}
      </dt>
      <dd className="mt-0.5">
        <span className="num text-xl font-medium tracking-tight">
          {value}
          {unit && <span className="unit text-sm tracking-normal">&nbsp;{unit}</span>}
        </span>
        {detail !== undefined && (
          <span
            className="num block text-xs text-ink-3 @min-[640px]:truncate"
            title={typeof detail === 'string' ? detail : undefined}
          >
            {detail}
          </span>
        )}
        {children && <span className="mt-1.5 block h-6">{children}</span>}
      </dd>
    </div>
  )
}

export function FigureStripSkeleton({ sparks = false }: { sparks?: boolean }) {
  return (
    <div className="breathing">
      <FigureStrip label="Loading">
        {['a', 'b', 'c', 'd', 'e', 'f'].map((key) => (
          <div key={key} className="px-5 pt-3 pb-3">
            <Skeleton width={72} height={10} className="my-[3px]" />
            <Skeleton width={92} height={20} className="my-1.5" />
            <Skeleton width={110} height={10} className="my-[3px]" />
            {sparks && <Skeleton height={24} className="mt-1.5 w-full" />}
          </div>
        ))}
      </FigureStrip>
    </div>
  )
}
