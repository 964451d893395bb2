'use client'

import dynamic from 'next/dynamic'
import { ChartSkeleton } from '../ui/skeleton.tsx'

const loading = () => <ChartSkeleton height={190} />

/** The plots of comparisons, fetched after the page, as all that bring Recharts along. */
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
