'use client'

import dynamic from 'next/dynamic'
import { ChartSkeleton } from '../ui/skeleton.tsx'

const loading = () => <ChartSkeleton height={190} />

/** The comparison plots, loaded after the page because they import Recharts. */
export const CdfPlot = dynamic(() => import('./compare-plots.tsx').then((plots) => plots.CdfPlot), {
  ssr: false,
  loading,
})
export const OverlayPlot = dynamic(
  () => import('./compare-plots.tsx').then((plots) => plots.OverlayPlot),
  { ssr: false, loading },
)
export const StepDeltaPlot = dynamic(
  () => import('./compare-plots.tsx').then((plots) => plots.StepDeltaPlot),
  { ssr: false, loading },
)
