'use client'

import { createContext, useContext } from 'react'

/** The quantity on the horizontal axis of step charts: the step, or the time at which its batch was accepted. */
export const X_AXES = ['step', 'time'] as const
export type XAxisBy = (typeof X_AXES)[number]

export interface StepAxis {
  by: XAxisBy
  /** The time at which the batch of a step was accepted, epoch ms; null if it is unknown. */
  timeOf(step: number): number | null
  /** Zooms all charts to these steps. Null if the page has no zoom. */
  onRange: ((from: number, to: number) => void) | null
}

const Axis = createContext<StepAxis>({ by: 'step', timeOf: () => null, onRange: null })

export const StepAxisProvider = Axis.Provider

/** The axis of the step charts. Without a `StepAxisProvider` above, it shows steps. */
export function useStepAxis(): StepAxis {
  return useContext(Axis)
}
