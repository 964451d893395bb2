import { createHash } from 'node:crypto'
import type { SampleInput } from '../../contract/trainer.ts'

/** The group of rollouts whose protocol names none: those of one prompt are one. */
export function groupIdOf(prompt: SampleInput['prompt']): string {
  const text = typeof prompt === 'string' ? prompt : JSON.stringify(prompt)
  return `prompt-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
}
