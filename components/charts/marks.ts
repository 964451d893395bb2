'use client'

import { createContext, useContext } from 'react'
import type { RunMarkDto } from '../../server/contract/marks.ts'

const Marks = createContext<readonly RunMarkDto[]>([])

export const MarksProvider = Marks.Provider

/** The marks of the current run; none outside a run page. */
export function useMarks(): readonly RunMarkDto[] {
  return useContext(Marks)
}
