'use client'

import { useState } from 'react'
import type { PromptListInput, PromptRowDto } from '../../server/contract/prompts.ts'
import { failureText } from '../api/failure.ts'
import { useTRPCClient } from '../api/trpc.ts'
import { saveCsv } from '../ui/save-file.ts'

/** Maximum number of prompts in a saved list. Each request returns 200 prompts, but reads all prompts of the run. */
export const MAX_SAVED = 10_000
const PAGE = 200

export function usePromptsCsv(input: Omit<PromptListInput, 'cursor' | 'limit'>) {
  const client = useTRPCClient()
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<string | null>(null)
  const save = async () => {
    setBusy(true)
    setError(null)
    try {
      const prompts: PromptRowDto[] = []
      let cursor: string | null = null
      do {
        const page: { items: PromptRowDto[]; nextCursor: string | null } =
          await client.prompts.list.query({ ...input, cursor, limit: PAGE })
        prompts.push(...page.items)
        cursor = page.nextCursor
      } while (cursor !== null && prompts.length < MAX_SAVED)
      saveCsv(`prompts ${input.run}`, [HEAD, ...prompts.map(lineOf)])
    } catch (reason) {
      setError(failureText(reason))
    } finally {
      setBusy(false)
    }
  }
  return { isBusy, error, save: () => void save() }
}

const HEAD = [
  ...['key', 'promptId', 'dataSource', 'class', 'visits', 'scored', 'passRate', 'mean'],
  ...['recentPassRate', 'recentMean', 'change', 'variedShare', 'lastStep', 'preview'],
]

function lineOf(prompt: PromptRowDto): (string | number)[] {
  return HEAD.map((name) => {
    const value = prompt[name as keyof PromptRowDto]
    return typeof value === 'string' || typeof value === 'number' ? value : ''
  })
}
