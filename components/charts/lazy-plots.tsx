'use client'

import dynamic from 'next/dynamic'
import { ChartSkeleton } from '../ui/skeleton.tsx'

const loading = () => <ChartSkeleton height={190} />

/** The plots, loaded after the page: Recharts is larger than everything else together. */
export const DistributionPlot = dynamic(
  () => import('./plots.tsx').then((plots) => plots.DistributionPlot),
  { ssr: false, loading },
)
export const CompletionPlot = dynamic(
  () => import('./plots.tsx').then((plots) => plots.CompletionPlot),
  { ssr: false, loading },
)
export const LatencyPlot = dynamic(
  () => import('./server-plots.tsx').then((plots) => plots.LatencyPlot),
  { ssr: false, loading },
)
export const ComponentPlot = dynamic(
  () => import('./component-plot.tsx').then((plots) => plots.ComponentPlot),
  { ssr: false, loading },
)
export const CallsPlot = dynamic(
  () => import('./server-plots.tsx').then((plots) => plots.CallsPlot),
  { ssr: false, loading },
)
export const FanPlot = dynamic(() => import('./run-plots.tsx').then((plots) => plots.FanPlot), {
  ssr: false,
  loading,
})
export const SignalsPlot = dynamic(
  () => import('./run-plots.tsx').then((plots) => plots.SignalsPlot),
  { ssr: false, loading },
)
export const FailuresPlot = dynamic(
  () => import('./run-plots.tsx').then((plots) => plots.FailuresPlot),
  { ssr: false, loading },
)
export const WaitsPlot = dynamic(() => import('./run-plots.tsx').then((plots) => plots.WaitsPlot), {
  ssr: false,
  loading,
})
export const SourcePlot = dynamic(
  () => import('./run-plots.tsx').then((plots) => plots.SourcePlot),
  { ssr: false, loading },
)
export const MonitorPlot = dynamic(
  () => import('./monitor-plot.tsx').then((plots) => plots.MonitorPlot),
  { ssr: false, loading },
)
