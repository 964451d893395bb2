import { randomBytes, randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { whyGuessable } from './guessable-key.ts'

it.each([
  'short',
  'key-one',
  'a-secret-key',
  '00000000000000000000000000000000',
  'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
  'abcdefghijklmnopqrstuvwxyz0123456789',
  'abababababababababababababababababab',
  'changemechangemechangemechangeme',
  'rewardops-admin-key-for-the-trainer',
  'my-secret-api-key-1234567890',
  '2026112320261123202611232026',
])('%s can be guessed', (key) => {
  const why = whyGuessable(key)
  expect(why).not.toBeNull()
  expect(why).not.toContain(key)
})

it('random keys of the usual forms cannot be guessed', () => {
  for (let i = 0; i < 500; i++) {
    for (const key of [
      randomBytes(16).toString('hex'),
      randomBytes(16).toString('base64url'),
      randomBytes(32).toString('base64'),
      randomUUID(),
      `rwo_${randomBytes(32).toString('base64url')}`,
    ]) {
      expect({ key, why: whyGuessable(key) }).toEqual({ key, why: null })
    }
  }
})
