'use client'

import { createContext, useContext } from 'react'
import type { RunMarkDto } from '../../server/wire/marks.ts'

const Marks = createContext<readonly RunMarkDto[]>([])

/** The marks that every chart over steps beneath it draws. */
export const MarksProvider = Marks.Provider

/** The marks of the run that is shown; none outside of a run's page. */
export function useMarks(): readonly RunMarkDto[] {
  return useContext(Marks)
}
