'use client'

import { createContext, useContext, useMemo } from 'react'
import { literalPattern } from '../../server/contract/sample-filter.ts'
import { searchMarks, type TextMark } from './text-marks.ts'

export const SearchedText = createContext<string | null>(null)

/** A position in the response that a jump unfolds and renders. `seq` counts the jumps. */
export interface Revealed {
  at: number
  seq: number
}

/** The target of the last jump in the response; null before a jump. */
export const Reveal = createContext<Revealed | null>(null)

const NO_MARKS: readonly TextMark[] = []

export function useMarks(text: string, given: readonly TextMark[] = NO_MARKS): readonly TextMark[] {
  const searched = useContext(SearchedText)
  return useMemo(() => {
    const found = searchMarks(text, searched === null ? null : literalPattern(searched))
    return found.length === 0 ? given : [...given, ...found]
  }, [text, searched, given])
}
