import { createReadStream, existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { SubmitInput } from '../contract/trainer.ts'
import { RewardOpsError } from '../errors.ts'

const DEMO_ROLLOUTS = fileURLToPath(
  new URL('../../examples/data/demo-rollouts.jsonl', import.meta.url),
)

/**
 * Reads the bundled rollouts as one batch, scored by rules, to fill an empty service. Throws `not_found` if the
 * installation lacks them.
 */
export async function demoBatch(): Promise<SubmitInput> {
  if (!existsSync(DEMO_ROLLOUTS)) {
    throw new RewardOpsError('not_found', 'The bundled rollouts are not part of this installation.')
  }
  const samples: unknown[] = []
  for await (const line of createInterface({ input: createReadStream(DEMO_ROLLOUTS) })) {
    if (line.trim()) samples.push(JSON.parse(line))
  }
  return SubmitInput.parse({ run: 'demo', step: 1, groupSize: null, samples })
}
