import { createHash } from 'node:crypto'
import type { SampleInput } from '../../contract/trainer.ts'

/** Returns the group id of a prompt: samples with equal prompts form a group. */
export function groupIdOf(prompt: SampleInput['prompt']): string {
  const text = typeof prompt === 'string' ? prompt : JSON.stringify(prompt)
  return `prompt-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
}
