import { expect, test } from 'vitest'
import { importOffLoop } from './import-off-loop.ts'

const text = 'reward: {reward_manager: {name: dapo}}'

test('a text that exceeds its processor time is refused', async () => {
  const names = [...'abcdefghijklmnopqrs']
  const aliases = names.map(
    (name, at) =>
      `${name}: &${name} ${at === 0 ? '{k: 1}' : `{p: *${names[at - 1]}, q: *${names[at - 1]}}`}`,
  )
  await expect(
    importOffLoop(aliases.join('\n'), 'http://x', { cpuMs: 1, waitMs: 600_000, lookMs: 1 }),
  ).rejects.toMatchObject({ reason: 'invalid_input' })
})

test('a thread without processor time is reported as busy, not as a fault of the text', async () => {
  await expect(
    importOffLoop(text, 'http://x', { cpuMs: 600_000, waitMs: 1, lookMs: 1 }),
  ).rejects.toMatchObject({ reason: 'busy', message: expect.stringContaining('1 ms') })
  expect(await importOffLoop(text, 'http://x')).toMatchObject({ reward: { manager: 'dapo' } })
})
