'use client'

import {
  type ComponentType,
  lazy,
  type ReactNode,
  Suspense,
  useEffect,
  useRef,
  useState,
} from 'react'
import { ChartSkeleton } from '../ui/skeleton.tsx'

/**
 * Returns a plot that is loaded after the page, because Recharts is larger than all other scripts together.
 * `next/dynamic` would add its own runtime to the scripts of the overview.
 */
export function lazyPlot<Props extends object>(
  load: () => Promise<ComponentType<Props>>,
  waiting: ReactNode = <ChartSkeleton height={190} />,
) {
  const Plot = lazy(async () => ({ default: await load() }))
  return (props: Props) => (
    <Suspense fallback={waiting}>
      <Plot {...props} />
    </Suspense>
  )
}

/**
 * Renders a plot once it scrolls into view, so that a page with all plots below the fold opens without loading
 * Recharts.
 */
export function WhenSeen({ waiting, children }: { waiting: ReactNode; children: ReactNode }) {
  const place = useRef<HTMLDivElement>(null)
  const [seen, setSeen] = useState(false)
  useEffect(() => {
    if (place.current === null) return
    const observer = new IntersectionObserver((entries) => {
      if (entries.some(({ isIntersecting }) => isIntersecting)) setSeen(true)
    })
    observer.observe(place.current)
    return () => observer.disconnect()
  }, [])
  return (
    <div ref={place} className="flex min-w-0 flex-col *:flex-1">
      {seen ? children : waiting}
    </div>
  )
}
