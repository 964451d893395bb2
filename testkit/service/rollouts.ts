import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { z } from 'zod'
import type { SampleInput, SubmitInput } from '../../server/contract/trainer.ts'
import { logitOf, textId } from '../simulated-rm/text.ts'

/** A sample with a plain-text response, as a trainer submits it; fields with defaults may be absent. */
export type Sample = z.input<typeof SampleInput> & { response: string }
export type Submit = z.input<typeof SubmitInput>

/** One correct answer to a GSM8K question; `fields` overrides the fields under test. */
export function sample(fields: Partial<Sample> = {}): Sample {
  return {
    uid: 'q-1',
    dataSource: 'openai/gsm8k',
    prompt: 'Natalia sold 48 clips in April and half as many in May. How many in all?',
    response: '48 / 2 = 24, and 48 + 24 = 72.\n#### 72',
    groundTruth: '72',
    ...fields,
  }
}

/** The score that a simulated reward model gives to a sample with a text prompt. */
export function hashScore({ prompt, response }: Sample): number {
  return logitOf(textId(prompt as string, response), 1)
}

/**
 * `count` samples in groups of `groupSize` with distinct responses. Every other response is correct, so half the
 * rewards of a group are 1.
 */
export function rollouts(count: number, groupSize = 8, label = 'q'): Sample[] {
  return Array.from({ length: count }, (_, i) =>
    sample({
      uid: `${label}-${Math.floor(i / groupSize)}`,
      response: `Rollout ${label} ${i}: 48 + 24 = ${i % 2 === 0 ? 72 : 71}.\n#### ${i % 2 === 0 ? 72 : 71}`,
    }),
  )
}

const GRADED = join(import.meta.dirname, '../../../shared/data/gsm8k-groups8/groups.first200.jsonl')

/** Whether the file of {@link gradedProblems} exists. It is not part of the repository. */
export const hasGradedProblems = existsSync(GRADED)

/** A GSM8K problem with the responses of eight models. `label` is true if the response is correct. */
export interface GradedProblem {
  id: string
  question: string
  ground_truth: string
  responses: { model: string; response: string; label: boolean }[]
}

export function gradedProblems(): GradedProblem[] {
  const lines = readFileSync(GRADED, 'utf8').trim().split('\n')
  return lines.map((line) => JSON.parse(line) as GradedProblem)
}

/** A text of `chars` characters, for bodies larger than the server parses on its event loop (1 MiB). */
export function padding(chars: number): string {
  return 'So 48 clips in April, and in May half of that. '
    .repeat(Math.ceil(chars / 47))
    .slice(0, chars)
}

/** Shuffles deterministically by seed (mulberry32 and Fisher–Yates). */
export function shuffled<T>(list: readonly T[], seed: number): T[] {
  let state = seed
  const random = () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
  const out = [...list]
  for (let i = out.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[out[i], out[j]] = [out[j] as T, out[i] as T]
  }
  return out
}
